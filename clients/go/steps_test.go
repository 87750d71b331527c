package jobq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestStepsRunOnce(t *testing.T) {
	pool := newPool(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE go_effects (job_id bigint, name text)"); err != nil {
		t.Fatal(err)
	}
	worker := newWorker(t, Options{Queues: []string{"go steps"}})
	worker.Handle("", func(ctx context.Context, job *Job) (any, error) {
		first, err := Step(ctx, job, "first", func(tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, "INSERT INTO go_effects VALUES ($1, 'first')", job.ID)
			return job.Attempt, err
		})
		if err != nil {
			return nil, err
		}
		if err := job.Sleep(ctx, "nap", time.Millisecond); err != nil {
			return nil, err
		}
		if err := job.SleepUntil(ctx, "past", time.Now().Add(-time.Hour)); err != nil {
			return nil, err
		}
		return nil, job.Completing(ctx, func(tx pgx.Tx) (any, error) {
			_, err := tx.Exec(ctx, "INSERT INTO go_effects VALUES ($1, 'last')", job.ID)
			return map[string]int{"first": first}, err
		})
	})
	start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go steps"})
	until(t, pool, "SELECT status = 'completed' AND result = '{\"first\": 1}' FROM jobq.jobs WHERE id = $1", id)
	until(t, pool, "SELECT array_agg(name ORDER BY name) = '{first,last}' FROM go_effects WHERE job_id = $1", id)
}

func TestFailedTransactionsAreRolledBack(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go rollback"}})
	worker.Handle("", func(ctx context.Context, job *Job) (any, error) {
		return nil, job.Completing(ctx, func(tx pgx.Tx) (any, error) {
			if _, err := tx.Exec(ctx, "SELECT jobq_enqueue('go rolled back')"); err != nil {
				return nil, err
			}
			return nil, errors.New("no money")
		})
	})
	start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go rollback", MaxAttempts: 1})
	until(t, pool, "SELECT status = 'failed' AND error LIKE '%no money' FROM jobq.jobs WHERE id = $1", id)
	until(t, pool, "SELECT count(*) = 0 FROM jobq.jobs WHERE queue = 'go rolled back'")
}

func TestWaits(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go waits"}})
	child := Kind[int]{Name: "child", Queue: "go waits"}
	Handle(worker, child, func(_ context.Context, _ *Job, number int) (int, error) { return 2 * number, nil })
	worker.Handle("parent", func(ctx context.Context, job *Job) (any, error) {
		ids, err := job.Spawn(ctx, "children", []Spec{child.Spec(1), child.Spec(2)})
		if err != nil {
			return nil, err
		}
		results, err := job.WaitForJobs(ctx, "all", ids, "all", 0)
		if err != nil {
			return nil, err
		}
		signal, err := job.WaitFor(ctx, "paid", 0)
		if err != nil {
			return nil, err
		}
		_, err = job.WaitFor(ctx, "never", 10*time.Millisecond)
		return []any{len(ids), len(results) > 0, signal, errors.Is(err, ErrTimeout)}, func() error {
			if errors.Is(err, ErrTimeout) {
				return nil
			}
			return err
		}()
	})
	start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go waits", Kind: "parent"})
	until(t, pool, "SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'go waits' AND kind = 'child' AND status = 'completed'")
	if _, err := pool.Exec(t.Context(), `SELECT jobq_signal('go waits', 'paid', '{"euros": 5}')`); err != nil {
		t.Fatal(err)
	}
	until(t, pool, `SELECT status = 'completed' AND result = '[2, true, {"euros": 5}, true]' FROM jobq.jobs WHERE id = $1`, id)
	until(t, pool, "SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'go waits' AND kind = 'child'")
}
