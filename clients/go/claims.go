package jobq

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// looksEvery is the time between two checks for jobs in the worker's queues that no handler of this worker can process.
const looksEvery = 10 * time.Minute

// claims is the state of the goroutine that claims jobs.
type claims struct {
	link            link
	wait            time.Duration
	waitWasCanceled bool
	lookAt          time.Time
	neverLooks      bool
	otherKinds      string // the kinds that the last warning named
}

// claimAll claims until the worker stops. It returns an error if the server refuses a claim.
func (w *Worker) claimAll() error {
	defer w.hand.claims.never()
	for tries := 0; w.stopping.Err() == nil; {
		room := w.options.Slots - w.inHand()
		if room == 0 {
			w.hand.claims.never()
			select {
			case <-w.slotFree:
			case <-w.stopping.Done():
			}
			continue
		}
		err := w.claim(min(room, w.options.Batch))
		if needsRetry(err) {
			w.log.Warn("a claim needs another try", "error", err)
			w.pause(pauseAfter(tries))
			tries++
		} else if err != nil {
			return fmt.Errorf("the claim was refused: %s: %w", describe(err), err)
		} else {
			tries = 0
		}
	}
	return nil
}

// pause returns after the time, or when the worker stops.
func (w *Worker) pause(length time.Duration) {
	w.hand.claims.expect(length)
	select {
	case <-time.After(length):
	case <-w.stopping.Done():
	}
}

// claim claims jobs, and starts their handlers. If no job is claimable, it waits until a job may be claimable.
func (w *Worker) claim(room int) error {
	w.hand.claims.expect(0)
	w.lookForOthers()
	w.hand.claims.expect(0)
	begun := time.Now()
	var jobs []*Job
	err := w.claims.link.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT id, lease, queue, kind, payload::text, attempt, max_attempts, priority, version,
				extract(epoch FROM run_at)::float8, extract(epoch FROM created_at)::float8, progress::text, metadata::text,
				heartbeat_seconds::float8
			FROM jobq_claim_any($1::text[], $2::text, $3::int, $4::text[], $5::int[], $6::text[], $7::text::interval, worker_info => $8::text::jsonb)`,
			w.options.Queues, w.options.WorkerID, room, w.kinds, w.options.Versions, w.options.Capabilities,
			secondsOrNil(w.options.HeartbeatTimeout), w.info)
		if err != nil {
			return err
		}
		// The handlers start after the complete answer, because the server commits the claim after it has sent the last row.
		jobs, err = pgx.CollectRows(rows, w.readJob)
		return err
	})
	if err != nil {
		return err
	}
	w.answered(time.Since(begun))
	for _, job := range jobs {
		w.begin(job)
	}
	if len(jobs) > 0 {
		w.pool.claimedJobs()
		return nil
	}
	if length := w.pollPause(); length > 0 {
		w.pause(length)
		return nil
	}
	return w.waitInServer(room)
}

// readJob reads a row of a claim. The times are read as numbers, because pgx cannot read all times that the server can store.
func (w *Worker) readJob(row pgx.CollectableRow) (*Job, error) {
	job := &Job{worker: w, beatAt: time.Now()}
	var payload string
	var progress, metadata *string
	var runAt, createdAt float64
	err := row.Scan(&job.ID, &job.Lease, &job.Queue, &job.Kind, &payload, &job.Attempt, &job.MaxAttempts, &job.Priority, &job.Version,
		&runAt, &createdAt, &progress, &metadata, &job.heartbeatSeconds)
	job.Payload, job.Progress, job.Metadata = raw(&payload), raw(progress), raw(metadata)
	job.RunAt, job.CreatedAt = timeOf(runAt), timeOf(createdAt)
	return job, err
}

func timeOf(epoch float64) time.Time { return time.UnixMicro(int64(math.Round(epoch * 1e6))) }

// waitInServer waits until there may be jobs to claim.
func (w *Worker) waitInServer(room int) error {
	w.hand.claims.expect(w.claims.wait)
	err := w.claims.link.do(answeredWithin+w.claims.wait, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CALL jobq_wait_any($1::text[], $2::text::interval, $3::text[], $4::int[], $5::text[], worker_id => $6::text,
			batch => $7::int, worker_info => $8::text::jsonb)`,
			w.options.Queues, seconds(w.claims.wait), w.kinds, w.options.Versions, w.options.Capabilities, w.options.WorkerID, room, w.info)
		return err
	})
	if sqlState(err) != "57014" {
		return err
	}
	if !w.claims.waitWasCanceled {
		w.claims.waitWasCanceled = true
		var setting string
		if err := w.claims.link.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SHOW statement_timeout").Scan(&setting)
		}); err != nil {
			return err
		}
		w.log.Warn("the server canceled a wait. See the setting statement_timeout of this role or database", "error", err,
			"statement_timeout", setting, "wait_timeout", w.claims.wait)
	}
	return nil
}

// lookForOthers logs which jobs wait in the queues that have no kind, or a kind without a handler here. It reads at most a thousand jobs
// of each lane. If the role cannot read the tables, the first check
// fails, and the worker does not check again.
func (w *Worker) lookForOthers() {
	if w.claims.neverLooks || time.Now().Before(w.claims.lookAt) {
		return
	}
	w.claims.lookAt = time.Now().Add(looksEvery)
	var found, kinds *string
	err := w.claims.link.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind),
				array_agg(kind ORDER BY kind)::text
			FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
				FROM jobq.lane_directory d WHERE d.queue = ANY ($1::text[]) AND d.kind <> ALL ($2::text[]) GROUP BY d.kind) counted WHERE n > 0`,
			w.options.Queues, w.kinds).Scan(&found, &kinds)
	})
	switch {
	case sqlState(err) == "42501":
		w.claims.neverLooks = true
	case err == nil && found != nil && *kinds != w.claims.otherKinds: // the claim notices a broken connection
		w.log.Warn("jobs that this worker does not claim are waiting in its queues: "+*found, "queues", strings.Join(w.options.Queues, ","))
		w.claims.otherKinds = *kinds
	}
}
