package jobq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// mostCollisions is the maximum number of times that a worker gives a job back because the job's own transaction collided with another
// one. The next collision counts as a failed attempt, so that a job that always collides ends.
const mostCollisions = 10

// mostCompletions is the maximum number of completions in one statement.
const mostCompletions = 1000

// conclude reports the outcome of a handler.
func (w *Worker) conclude(job *Job, result *string, err error) {
	job.mutex.Lock()
	given, done, reason, progress := job.reporting, job.done, job.reason, job.progress
	job.reporting, job.progress = true, nil
	job.mutex.Unlock()
	if given || done || errors.Is(err, ErrWaiting) {
		return
	}
	log := w.logOf(job)
	if reason == ErrLost || errors.Is(err, ErrLost) {
		log.Warn("the lease is lost")
		return
	}
	if progress != nil {
		w.report(job, "progress", "SELECT jobq_heartbeat($1, $2, $3::text::jsonb) IN ('held', 'cancel')", job.ID, job.Lease, *progress)
	}
	w.sendLastLines(job)
	what, refused := w.send(job, result, reason, err)
	if refused == nil {
		return
	}
	again := &Fail{Message: fmt.Sprintf("the %s was refused: %s", what, describe(refused))}
	if fail := (*Fail)(nil); errors.As(err, &fail) && what == "failure" {
		again.RetryIn, again.Final = fail.RetryIn, fail.Final
	}
	if w.fail(job, again.Message, again, nil) != nil && again.RetryIn != 0 {
		w.fail(job, again.Message, &Fail{Final: again.Final}, nil) // the server may have rejected the delay
	}
}

// send sends the report of a handler that has ended, and returns the kind of the report and the error with which the server rejects it.
func (w *Worker) send(job *Job, result *string, reason, err error) (what string, refused error) {
	var fail *Fail
	var snooze *Snooze
	switch {
	case err == nil:
		return "result", w.complete(job, result)
	case errors.As(err, &snooze):
		return "snooze", w.report(job, "snoozed", "SELECT jobq_snooze($1, $3::text::interval, $2)", job.ID, job.Lease, seconds(snooze.Delay))
	case errors.Is(err, ErrRelease), isStop(err) && reason == ErrStopping:
		return "release", w.report(job, "released", "SELECT jobq_release($1, $2)", job.ID, job.Lease)
	case isStop(err) && reason == ErrCanceled:
		w.logOf(job).Info("cancelled")
		return "failure", w.sendFailure(job, "cancelled", &Fail{}, nil)
	case w.givesBack(job, err):
		return "release", w.report(job, "released", "SELECT jobq_release($1, $2)", job.ID, job.Lease)
	}
	details := w.detailsOf(job, err)
	w.callOnError(job, err)
	if errors.As(err, &fail) {
		return "failure", w.fail(job, describe(err), fail, details)
	}
	return "failure", w.fail(job, textOf(err), &Fail{}, details)
}

// fail logs a failure and reports it. It returns the error with which the server rejects the report.
func (w *Worker) fail(job *Job, message string, fail *Fail, details *string) error {
	w.logOf(job).Warn("the attempt has failed", "error", clean(message))
	return w.sendFailure(job, clean(message), fail, details)
}

func (w *Worker) sendFailure(job *Job, message string, fail *Fail, details *string) error {
	retryIn := secondsOrNil(fail.RetryIn)
	if fail.RetryIn < 0 {
		now := seconds(0)
		retryIn = &now
	}
	send := func(message string, details *string) error {
		return w.report(job, "failed", "SELECT jobq_fail($1, $2, $3, $4::text::interval, $5, $6::text::jsonb) IS NOT NULL",
			job.ID, job.Lease, message, retryIn, !fail.Final, details)
	}
	refused := send(message, details)
	if isUnstorable(refused) {
		message = ascii(message)
		if details != nil {
			plain := ascii(*details)
			details = &plain
		}
		refused = send(message, details)
	}
	if refused != nil && details != nil {
		refused = send(message, nil)
	}
	return refused
}

// givesBack returns whether the job runs again without counting the attempt, because its own transaction collided with another one.
func (w *Worker) givesBack(job *Job, err error) bool {
	state := sqlState(err)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !isCollision(state) || w.collisions[job.ID] >= mostCollisions {
		delete(w.collisions, job.ID)
		return false
	}
	if len(w.collisions) > 1000 { // most are of jobs that other workers have completed
		clear(w.collisions)
	}
	w.collisions[job.ID]++
	w.logOf(job).Warn(fmt.Sprintf("its transaction collided with another one (SQLSTATE %s), so the job is given back: %d of %d times",
		state, w.collisions[job.ID], mostCollisions))
	return true
}

// report sends a report until the server answers, and returns the error with which the server rejects it. The statement returns whether
// the report was taken.
func (w *Worker) report(job *Job, what, statement string, values ...any) error {
	taken, state, tries := false, "", 0
	err := w.repeat(func(ctx context.Context, conn *pgx.Conn) error {
		tries++
		if err := conn.QueryRow(ctx, statement, values...).Scan(&taken); err != nil || taken {
			return err
		}
		return askState(ctx, conn, job, &state)
	})
	return w.reported(job, what, taken || wasTakenBefore(state, tries), err)
}

// askState asks for the state of a job whose report was not taken: maybe an earlier try has succeeded, but its answer was lost.
func askState(ctx context.Context, conn *pgx.Conn, job *Job, state *string) error {
	return conn.QueryRow(ctx, "SELECT jobq_heartbeat($1, $2)", job.ID, job.Lease).Scan(state)
}

// wasTakenBefore returns whether the state of a job says that an earlier try to report has succeeded. The state is "gone" if the queue
// keeps no finished jobs.
func wasTakenBefore(state string, tries int) bool {
	return state == "finished" || state == "gone" && tries > 1
}

// reported logs how a report has ended, and returns the error with which the server has rejected it.
func (w *Worker) reported(job *Job, what string, taken bool, err error) error {
	log := w.logOf(job)
	switch {
	case needsRetry(err):
		w.couldNotReport(job)
		return nil
	case err != nil:
		log.Warn("the report was refused: "+what, "error", describe(err))
		return err
	case !taken:
		log.Warn("the lease is lost")
	case what == "released":
		log.Info("released")
	}
	return nil
}

// completion is a job that waits to be completed.
type completion struct {
	job    *Job
	result *string
	tries  int
	// sent: the server has answered. Then taken tells whether it has completed the job, or refused is its error.
	sent, taken bool
	refused     error
}

// complete completes a job. Completions that are ready at the same time are sent in one statement: the first goroutine that gets the
// connection sends them for the others.
func (w *Worker) complete(job *Job, result *string) error {
	own := &completion{job: job, result: result}
	w.queueCompletions(own)
	state := ""
	err := w.repeat(func(ctx context.Context, conn *pgx.Conn) error {
		for !own.sent {
			batch := w.takeCompletions()
			if err := sendCompletions(ctx, conn, batch); err != nil {
				w.queueCompletions(slices.DeleteFunc(batch, func(one *completion) bool { return one.sent })...)
				return err
			}
		}
		if own.refused != nil || own.taken {
			return own.refused
		}
		return askState(ctx, conn, job, &state)
	})
	if needsRetry(err) { // gives up
		w.mutex.Lock()
		w.completions = slices.DeleteFunc(w.completions, func(other *completion) bool { return other == own })
		w.mutex.Unlock()
	}
	return w.reported(job, "completed", own.taken || wasTakenBefore(state, own.tries), err)
}

func (w *Worker) queueCompletions(completions ...*completion) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.completions = append(w.completions, completions...)
}

func (w *Worker) takeCompletions() []*completion {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	number := min(len(w.completions), mostCompletions)
	batch := slices.Clone(w.completions[:number])
	w.completions = slices.Delete(w.completions, 0, number)
	return batch
}

// sendCompletions sends completions. If the server rejects a batch, it sends each of them separately, so that only the job whose result
// is rejected fails. It returns an error if the completions need another try.
func sendCompletions(ctx context.Context, conn *pgx.Conn, batch []*completion) error {
	for _, one := range batch {
		one.tries++
	}
	if len(batch) > 1 {
		err := completeTogether(ctx, conn, batch)
		if err == nil || isBroken(conn, err) || isTransient(err) {
			return err
		}
	}
	for _, one := range batch {
		if one.sent {
			continue
		}
		row := conn.QueryRow(ctx, "SELECT jobq_complete($1, $2, $3::text::jsonb)", one.job.ID, one.job.Lease, one.result)
		err := row.Scan(&one.taken)
		if err != nil && (isBroken(conn, err) || isTransient(err)) {
			return err
		}
		one.sent, one.refused = true, err
	}
	return nil
}

func completeTogether(ctx context.Context, conn *pgx.Conn, batch []*completion) error {
	var ids, leases []int64
	var results []*string
	for _, one := range batch {
		ids, leases, results = append(ids, one.job.ID), append(leases, one.job.Lease), append(results, one.result)
	}
	rows, err := conn.Query(ctx, "SELECT completed FROM jobq_complete_many($1::bigint[], $2::bigint[], $3::text[]::jsonb[])", ids, leases, results)
	if err != nil {
		return err
	}
	completed, err := pgx.CollectRows(rows, pgx.RowTo[bool]) // in the order of the ids
	if err != nil {
		return err
	}
	for place, one := range batch {
		one.sent, one.taken = true, place < len(completed) && completed[place]
	}
	return nil
}
