package jobq

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns the pool of the handlers: Options.Pool, or the pool of the worker, which has at most as many connections as the worker has
// slots. A function that runs in a transaction of the pool must use this transaction instead of the pool.
func (j *Job) Pool() *pgxpool.Pool { return j.worker.handlerPool }

// Completing commits the writes of the function and the completion of the job in one transaction. The result of the function becomes
// the result of the job. If the lease is lost, everything is rolled back, and the error is ErrLost. After an error, the attempt is not
// over, so the handler returns the error.
func (j *Job) Completing(ctx context.Context, function func(tx pgx.Tx) (any, error)) error {
	j.worker.sendLastLines(j)
	completed := false
	err := j.commit(ctx, function, func(tx pgx.Tx, text *string) error {
		completed = true
		_, err := tx.Exec(ctx, "SELECT jobq_complete($1, $2, $3::text::jsonb, must_hold => true)", j.ID, j.Lease, text)
		return err
	})
	if err != nil && completed && sqlState(err) == "" && j.hasFinished() {
		err = nil // only the answer to COMMIT was lost
	}
	j.mutex.Lock()
	j.done = err == nil
	j.mutex.Unlock()
	return err
}

// hasFinished returns whether the server says that the attempt is over although the answer to its last statement was lost.
func (j *Job) hasFinished() bool {
	state := ""
	err := j.worker.repeat(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
			SELECT jobq_heartbeat($1, $2) FROM briefly`, j.ID, j.Lease).Scan(&state)
	})
	return err == nil && state == "finished"
}

// commit commits the writes of the function together with the statement of last, which receives the result of the function as JSON.
// While the row of the job is locked, it gets no heartbeats, because they would wait for the end of the transaction.
func (j *Job) commit(ctx context.Context, function func(tx pgx.Tx) (any, error), last func(tx pgx.Tx, text *string) error) error {
	defer j.setCommitting(false)
	err := pgx.BeginFunc(ctx, j.Pool(), func(tx pgx.Tx) error {
		result, err := function(tx)
		if err != nil {
			return err
		}
		encoded, err := json.Marshal(result)
		if err != nil {
			return err
		}
		text := string(encoded)
		j.setCommitting(true)
		return last(tx, &text)
	})
	if sqlState(err) == "JQ001" {
		return errors.Join(ErrLost, err)
	}
	return err
}

// setCommitting waits for the answer to heartbeats that are on their way.
func (j *Job) setCommitting(committing bool) {
	if committing {
		j.worker.beating.Lock()
		defer j.worker.beating.Unlock()
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.committing = committing
}

// ask returns the saved JSON of a step or wait, and its state.
func (j *Job) ask(ctx context.Context, statement string, arguments ...any) (saved *string, state string, err error) {
	j.worker.sendLastLines(j)
	row := j.Pool().QueryRow(ctx, statement, append([]any{j.ID, j.Lease}, arguments...)...)
	if err := row.Scan(&state, &saved); err != nil {
		return nil, "", err
	}
	switch state {
	case "waiting":
		return nil, state, ErrWaiting
	case "lost":
		return nil, state, ErrLost
	case "timeout":
		return saved, state, ErrTimeout
	case "cancel", "cancelled":
		j.stop(ErrCanceled)
		return nil, state, ErrCanceled
	}
	return saved, state, nil
}

// Step commits the writes of the function once, together with its result. Later attempts of the job return the result without a call. If
// the transaction fails, the next attempt calls the function again.
func Step[R any](ctx context.Context, job *Job, name string, function func(tx pgx.Tx) (R, error)) (R, error) {
	var result R
	saved, state, err := job.ask(ctx, "SELECT state, result::text FROM jobq_step($1, $2, $3)", name)
	if err == nil && state != "done" {
		err = job.commit(ctx, func(tx pgx.Tx) (any, error) { return function(tx) }, func(tx pgx.Tx, text *string) error {
			row := tx.QueryRow(ctx, "SELECT result::text FROM jobq_step_done($1, $2, $3, $4::text::jsonb)", job.ID, job.Lease, name, text)
			return row.Scan(&saved)
		})
	}
	if err != nil || saved == nil {
		return result, err
	}
	return result, json.Unmarshal([]byte(*saved), &result)
}

// Sleep returns nil after the delay with this name has elapsed. Until then, it returns ErrWaiting, and the job runs again after the delay.
func (j *Job) Sleep(ctx context.Context, name string, delay time.Duration) error {
	_, _, err := j.ask(ctx, "SELECT jobq_sleep($1, $2, $3, $4::text::interval), NULL::text", name, seconds(delay))
	return err
}

// SleepUntil is like Sleep with a time instead of a delay.
func (j *Job) SleepUntil(ctx context.Context, name string, until time.Time) error {
	_, _, err := j.ask(ctx, "SELECT jobq_sleep($1, $2, $3, until => $4::timestamptz), NULL::text", name, until)
	return err
}

// WaitFor returns the payload of a signal. The job occupies no worker while it waits: until the signal arrives, the error is ErrWaiting,
// and after the timeout, it is ErrTimeout. A timeout of 0 means none.
func (j *Job) WaitFor(ctx context.Context, event string, timeout time.Duration) (json.RawMessage, error) {
	payload, _, err := j.ask(ctx, "SELECT state, payload::text FROM jobq_await($1, $2, $3, $4::text::interval)", event, secondsOrNil(timeout))
	return raw(payload), err
}

// WaitForJobs waits like WaitFor until the jobs have finished, and returns their results as jobq_await_jobs does. The name is that of the
// wait, and the mode is "all" or "any". After the timeout, the error is ErrTimeout.
func (j *Job) WaitForJobs(ctx context.Context, name string, ids []int64, mode string, timeout time.Duration) (json.RawMessage, error) {
	results, _, err := j.ask(ctx, "SELECT state, results::text FROM jobq_await_jobs($1, $2, $3, $4, $5, $6::text::interval)",
		ids, name, mode, secondsOrNil(timeout))
	return raw(results), err
}

// Spawn enqueues child jobs as a step, so that a retry does not enqueue them again, and returns their ids.
func (j *Job) Spawn(ctx context.Context, name string, specs []Spec) ([]int64, error) {
	text, err := json.Marshal(specs)
	if err != nil {
		return nil, err
	}
	var ids []int64
	err = j.Pool().QueryRow(ctx, "SELECT job_ids FROM jobq_spawn($1, $2, $3, $4::text::jsonb)", j.ID, j.Lease, name, string(text)).Scan(&ids)
	if sqlState(err) == "JQ001" {
		err = errors.Join(ErrLost, err)
	}
	return ids, err
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}
