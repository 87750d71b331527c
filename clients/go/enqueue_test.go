package jobq

import (
	"reflect"
	"testing"
	"time"
)

func TestEnqueueJoinsTheTransaction(t *testing.T) {
	pool := newPool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := enqueue(t, tx, Spec{Queue: "go joined"})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, pool, "SELECT count(*) = 0 FROM jobq.jobs WHERE id = $1", gone)
	kept := enqueue(t, pool, Spec{Queue: "go joined", UniqueKey: "one"})
	jobs, err := EnqueueMany(t.Context(), pool, []Spec{{Queue: "go joined", UniqueKey: "one"}, {Queue: "go joined"}})
	if err != nil || len(jobs) != 2 || jobs[0] != (Enqueued{kept, false}) || !jobs[1].IsNew {
		t.Error(jobs, err)
	}
	if jobs, err := EnqueueMany(t.Context(), pool, nil); len(jobs) != 0 || err != nil {
		t.Error(jobs, err)
	}
	if _, err := Enqueue(t.Context(), pool, Spec{Queue: "go joined", Payload: func() {}}); err == nil {
		t.Error("a payload that is no JSON is accepted")
	}
	if _, err := Enqueue(t.Context(), pool, Spec{Queue: "go joined", Priority: 40000}); sqlState(err) != "22003" {
		t.Error("the error of the server is", err)
	}
}

func TestSpecHasAllAttributes(t *testing.T) {
	pool := newPool(t)
	var batch int64
	if err := pool.QueryRow(t.Context(), "SELECT jobq_create_batch()").Scan(&batch); err != nil {
		t.Fatal(err)
	}
	before := enqueue(t, pool, Spec{Queue: "go before"})
	runAt := time.Date(2100, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))
	spec := Spec{
		Queue: "go spec", Kind: "kind", Payload: 0, Priority: -5, RunAt: runAt, MaxAttempts: 7, Version: 2, Requires: []string{"gpu"},
		HeartbeatTimeout: 1500 * time.Millisecond, MaxRuntime: time.Hour, ExpiresAt: runAt.Add(time.Hour), Metadata: []string{"m"},
		UniqueKey: "u", UniqueFor: "day", OnConflict: "error", DependsOn: []any{before}, OnDependencyFailure: "run", Ref: "r", GroupKey: "g",
		ConcurrencyKey: "c", BatchID: batch, Limits: []string{},
	}
	// UniqueFor and ExpiresIn exclude other fields, so they are tested below.
	spec.UniqueFor = ""
	id := enqueue(t, pool, spec)
	until(t, pool, `SELECT kind = 'kind' AND payload = '0' AND priority = -5 AND run_at = '2100-01-02 02:04:05.678901+00' AND max_attempts = 7
		AND version = 2 AND metadata = '["m"]' AND unique_key = 'u' AND group_key = 'g' AND concurrency_key = 'c' AND batch_id = $2
		AND heartbeat_timeout = '1.5 s' AND max_runtime = '1 h' AND expires_at = run_at + interval '1 h' AND requires = '{gpu}'
		FROM jobq.jobs WHERE id = $1`, id, batch)
	later := enqueue(t, pool, Spec{Queue: "go spec", RunAt: runAt, ExpiresIn: time.Minute})
	until(t, pool, "SELECT expires_at = run_at + interval '1 min' FROM jobq.jobs WHERE id = $1", later)
	spec.UniqueFor, spec.ExpiresIn = "x", 1
	value := reflect.ValueOf(spec)
	for place := range value.NumField() {
		name := value.Type().Field(place).Name
		if value.Field(place).IsZero() {
			t.Error("the test sets no value for", name)
		}
	}
}
