package jobq

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is what enqueue functions need: a pgx.Tx, a *pgxpool.Pool, a *pgxpool.Conn, or a *pgx.Conn. In a transaction, the jobs exist if and
// only if the transaction commits.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Spec describes a job. The zero value of each field means its default. The fields have the meaning of the parameters of jobq_enqueue.
type Spec struct {
	Queue               string        `json:"queue,omitempty"`
	Kind                string        `json:"kind,omitempty"`
	Payload             any           `json:"payload,omitempty"`
	Priority            int           `json:"priority,omitempty"`
	RunAt               time.Time     `json:"run_at,omitzero"`
	MaxAttempts         int           `json:"max_attempts,omitempty"`
	Version             int           `json:"version,omitempty"`
	Requires            []string      `json:"requires,omitempty"`
	HeartbeatTimeout    time.Duration `json:"heartbeat_timeout,omitempty"`
	MaxRuntime          time.Duration `json:"max_runtime,omitempty"`
	ExpiresAt           time.Time     `json:"expires_at,omitzero"`
	ExpiresIn           time.Duration `json:"expires_in,omitempty"`
	Metadata            any           `json:"metadata,omitempty"`
	UniqueKey           string        `json:"unique_key,omitempty"`
	UniqueFor           string        `json:"unique_for,omitempty"`
	OnConflict          string        `json:"on_conflict,omitempty"`
	DependsOn           []any         `json:"depends_on,omitempty"` // ids, or "@REF" with the Ref of an earlier job of the same call
	OnDependencyFailure string        `json:"on_dependency_failure,omitempty"`
	Ref                 string        `json:"ref,omitempty"`
	GroupKey            string        `json:"group_key,omitempty"`
	ConcurrencyKey      string        `json:"concurrency_key,omitempty"`
	BatchID             int64         `json:"batch_id,omitempty"`
	Limits              []string      `json:"limits,omitzero"` // an empty list means none, and nil the limits of the kind or queue
}

// MarshalJSON returns the object that jobq_enqueue_jobs accepts.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	return json.Marshal(struct {
		plain
		// These fields replace the fields with the same keys, because the server reads intervals.
		HeartbeatTimeout *string `json:"heartbeat_timeout,omitempty"`
		MaxRuntime       *string `json:"max_runtime,omitempty"`
		ExpiresIn        *string `json:"expires_in,omitempty"`
	}{plain(s), secondsOrNil(s.HeartbeatTimeout), secondsOrNil(s.MaxRuntime), secondsOrNil(s.ExpiresIn)})
}

// Enqueued is the result of an enqueue. If the unique key was taken, ID is the id of the job that has it, and IsNew is false.
type Enqueued struct {
	ID    int64
	IsNew bool
}

// Enqueue enqueues a job.
func Enqueue(ctx context.Context, db DB, spec Spec) (Enqueued, error) {
	jobs, err := EnqueueMany(ctx, db, []Spec{spec})
	if err != nil {
		return Enqueued{}, err
	}
	return jobs[0], nil
}

// EnqueueMany enqueues jobs in one statement, and returns one result per job, in the same order.
func EnqueueMany(ctx context.Context, db DB, specs []Spec) ([]Enqueued, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("jobq: a job cannot be written as JSON: %w", err)
	}
	rows, err := db.Query(ctx, "SELECT job_id, is_new FROM jobq_enqueue_jobs($1::text::jsonb)", string(text))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Enqueued])
}

// Spec returns a job of the kind, for EnqueueMany and Job.Spawn. The functions can change the other attributes of the job.
func (k Kind[P]) Spec(payload P, changes ...func(*Spec)) Spec {
	spec := Spec{Queue: k.Queue}
	if spec.Queue == "" {
		spec.Queue = "default"
	}
	for _, change := range changes {
		change(&spec)
	}
	spec.Kind, spec.Payload = k.Name, payload
	return spec
}

// Enqueue enqueues a job of the kind. The functions can change its other attributes, for example its priority.
func (k Kind[P]) Enqueue(ctx context.Context, db DB, payload P, changes ...func(*Spec)) (Enqueued, error) {
	return Enqueue(ctx, db, k.Spec(payload, changes...))
}

// seconds returns a duration as an interval.
func seconds(duration time.Duration) string { return fmt.Sprintf("%f s", duration.Seconds()) }

// secondsOrNil returns a duration as an interval, or nil for NULL.
func secondsOrNil(duration time.Duration) *string {
	if duration == 0 {
		return nil
	}
	text := seconds(duration)
	return &text
}
