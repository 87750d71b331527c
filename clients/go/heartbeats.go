package jobq

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	beatsLookEvery = 50 * time.Millisecond
	// linesEvery is the minimum time between two calls that send the log lines of running jobs.
	linesEvery = time.Second
)

// heartbeatAll sends heartbeats, progress, and log lines until ctx is done.
func (w *Worker) heartbeatAll(ctx context.Context) {
	var linesAt time.Time
	for tries := 0; ; {
		pause := beatsLookEvery
		if err := w.heartbeatDue(&linesAt); err != nil {
			w.log.Warn("heartbeats failed, trying again", "error", describe(err))
			pause = pauseAfter(tries)
			tries++
		} else {
			tries = 0
		}
		w.hand.beats.expect(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			w.hand.beats.never()
			return
		}
	}
}

// heartbeatDue sends all heartbeats, progress, and log lines that are due. It stops at the first error and returns it; the rest stays
// due. It sends the heartbeats of all jobs before progress, because progress may fail if its shard is down, and must not delay heartbeats.
func (w *Worker) heartbeatDue(linesAt *time.Time) error {
	w.beating.Lock()
	defer w.beating.Unlock()
	var due, reported, progressed, talkative []*Job
	for _, job := range w.held() {
		job.mutex.Lock()
		silent := time.Since(job.beatAt)
		isDue := silent >= w.interval(job)
		lost := job.reason == ErrLost
		if isDue && job.reporting && !lost {
			job.beatAt = time.Now()
			reported = append(reported, job)
		}
		if !job.reporting && !job.committing && !lost {
			if isDue {
				due = append(due, job)
			}
			if job.progress != nil && (isDue || silent > 500*time.Millisecond) {
				progressed = append(progressed, job)
			}
			if len(job.lines) > 0 {
				talkative = append(talkative, job)
			}
		}
		job.mutex.Unlock()
	}
	if len(due) > 0 {
		if err := w.heartbeatTogether(due); err != nil {
			return err
		}
	}
	for _, job := range reported {
		if err := w.heartbeatBriefly(job); err != nil {
			return err
		}
	}
	for _, job := range progressed {
		if err := w.heartbeatWithProgress(job); err != nil {
			return err
		}
	}
	if len(talkative) > 0 && time.Since(*linesAt) >= linesEvery {
		*linesAt = time.Now()
		w.hand.beats.expect(0)
		return w.sendLines(&w.heartbeats, talkative)
	}
	return nil
}

// beat calls a function with the connection for heartbeats.
func (w *Worker) beat(function func(ctx context.Context, conn *pgx.Conn) error) error {
	w.hand.beats.expect(0)
	return w.heartbeats.do(answeredWithin, function)
}

func (w *Worker) heartbeatTogether(due []*Job) error {
	var ids, leases []int64
	for _, job := range due {
		ids, leases = append(ids, job.ID), append(leases, job.Lease)
	}
	var states []string // in the order of the ids
	begun := time.Now()
	err := w.beat(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT state FROM jobq_heartbeat_many($1::bigint[], $2::bigint[], $3::text::jsonb)", ids, leases, w.info)
		if err != nil {
			return err
		}
		states, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return err
	}
	w.answered(time.Since(begun))
	for place, state := range states {
		due[place].heard(state)
	}
	return nil
}

// heartbeatBriefly keeps the lease of a job whose report is in flight, and ignores the answer, because the report finds out the same. It
// waits only briefly, because an unanswered report may still lock the row, and the heartbeats of other jobs must not wait.
func (w *Worker) heartbeatBriefly(job *Job) error {
	err := w.beat(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
			SELECT jobq_heartbeat($1, $2) FROM briefly`, job.ID, job.Lease)
		return err
	})
	if needsRetry(err) && sqlState(err) != "55P03" {
		return err
	}
	return nil
}

// heartbeatWithProgress returns an error only if the heartbeat needs another try.
func (w *Worker) heartbeatWithProgress(job *Job) error {
	job.mutex.Lock()
	progress := job.progress // read here, because an earlier report may have sent it
	job.mutex.Unlock()
	if progress == nil {
		return nil
	}
	state := "held"
	err := w.beat(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT jobq_heartbeat($1, $2, $3::text::jsonb)", job.ID, job.Lease, *progress).Scan(&state)
	})
	if needsRetry(err) {
		return err
	}
	job.mutex.Lock()
	if job.progress == progress {
		job.progress = nil
	}
	job.mutex.Unlock()
	if err != nil {
		w.logOf(job).Warn("progress was refused", "error", describe(err))
		return nil
	}
	job.heard(state)
	return nil
}

// heard takes note of the answer to a heartbeat.
func (j *Job) heard(state string) {
	j.mutex.Lock()
	j.beatAt = time.Now()
	reporting := j.reporting
	j.mutex.Unlock()
	switch {
	case reporting, state == "held", state == "finished":
	case state == "cancel":
		j.stop(ErrCanceled)
	default:
		j.stop(ErrLost)
	}
}

// interval returns the heartbeat interval of a job.
func (w *Worker) interval(job *Job) time.Duration {
	own := max(time.Duration(job.heartbeatSeconds*float64(time.Second)), shortestOption)
	if interval := w.intervalOfOptions(); interval > 0 {
		return min(own, interval)
	}
	return own
}

// intervalOfOptions returns the heartbeat interval that the options set, or 0.
func (w *Worker) intervalOfOptions() time.Duration {
	interval := w.options.HeartbeatInterval
	if third := w.options.HeartbeatTimeout / 3; third > 0 && (interval == 0 || third < interval) {
		interval = third
	}
	return interval
}
