package jobq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Worker serves one or more queues.
type Worker struct {
	connString string
	options    Options
	handlers   map[string]HandlerFunc
	started    atomic.Bool

	log         *slog.Logger
	kinds       []string
	info        *string // the argument worker_info
	startedAt   time.Time
	handlerPool *pgxpool.Pool
	pool        smallPool
	hand        hand

	claims     claims
	heartbeats link
	reports    link
	beating    sync.Mutex // held while heartbeats are on their way

	mutex       sync.Mutex     // protects the following fields
	running     map[int64]*Job // by lease
	collisions  map[int64]int  // number of collisions of the job's own transaction, by job ID
	completions []*completion  // not sent yet

	slotFree   chan struct{}
	stopping   context.Context
	giveUpAt   atomic.Pointer[time.Time] // the end of the time for the last reports
	unreported atomic.Bool
}

// NewWorker returns a worker that connects with a connection string or URL, or, if it is empty, with PGHOST and the other environment
// variables of libpq. The error is an *OptionError if an option is invalid.
func NewWorker(connString string, options Options) (*Worker, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if _, err := pgx.ParseConfig(connString); err != nil {
		return nil, err
	}
	return &Worker{connString: connString, options: options.withDefaults(), handlers: map[string]HandlerFunc{}}, nil
}

// Run works until ctx is done. Then it claims no more jobs, gives the handlers the grace period to end, and releases the jobs whose
// handlers are still running. It returns an error if the worker could not connect, if the server refused a claim, or if jobs could not be
// reported; ctx being done is no error. Handlers that have not ended after the grace period still run when Run returns. A worker can run
// only once.
func (w *Worker) Run(ctx context.Context) error {
	return w.run(ctx, context.Background(), func() {})
}

// run works until stop is done. If hurry is done, the grace period ends. It calls ready when the worker has connected.
func (w *Worker) run(stop, hurry context.Context, ready func()) error {
	if w.started.Swap(true) {
		return errors.New("the worker has already run; create another one")
	}
	w.prepareRun()
	stopping, stopClaims := context.WithCancel(context.Background())
	defer stopClaims()
	w.stopping = stopping
	defer w.disconnect()
	if err := w.open(); err != nil {
		return err
	}
	unwatch, err := w.watchLiveness()
	if err != nil {
		return err
	}
	defer unwatch()
	ready()
	w.log.Info("the worker serves its queues, and leaves jobs of other kinds to other workers", "queues", w.options.Queues, "kinds", w.kinds)

	beats, stopBeats := context.WithCancel(context.Background())
	defer stopBeats()
	go w.heartbeatAll(beats)
	claimed := make(chan error, 1)
	go func() { claimed <- w.claimAll() }()

	var failure error
	select {
	case <-stop.Done():
	case failure = <-claimed:
		claimed = nil
	}
	w.hand.stopping.Store(true)
	stopClaims()
	w.log.Info("stopping, no more claims")
	if claimed != nil {
		go w.wake()
	}
	if err := w.await(hurry, claimed); err != nil {
		failure = err
	}
	given := make(chan error, 1)
	go func() { given <- w.giveBack() }()
	select {
	case err := <-given:
		if err != nil {
			return errors.Join(failure, err)
		}
	case <-time.After(10 * time.Second): // a pooler without a server does not answer
		return errors.Join(failure, errors.New("jobs could not be released: there is no answer"))
	}
	w.log.Info("stopped")
	return failure
}

func (w *Worker) prepareRun() {
	w.log = w.options.Logger.With("worker_id", w.options.WorkerID)
	w.running, w.collisions = map[int64]*Job{}, map[int64]int{}
	w.slotFree = make(chan struct{}, 1)
	w.kinds = slices.Sorted(maps.Keys(w.handlers))
	if w.kinds == nil {
		w.kinds = []string{}
	}
	w.startedAt = time.Now()
	w.info = w.describeWorker("")
	w.claims.link.worker, w.heartbeats.worker, w.reports.worker = w, w, w
	w.claims.wait = w.options.WaitTimeout
	w.hand.claims.never()
	w.hand.beats.never()
}

// open opens the first connections, and fails if one of them fails.
func (w *Worker) open() error {
	for _, link := range []*link{&w.claims.link, &w.heartbeats, &w.reports} {
		if err := link.open(); err != nil {
			return err
		}
	}
	var pid int32
	if err := w.reports.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	}); err != nil {
		return err
	}
	w.pool.pooled = uint32(pid) != w.reports.conn.PgConn().PID()
	isPreloaded := true
	err := w.reports.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT jobq_wake($1)", w.options.WorkerID)
		return err
	})
	switch sqlState(err) {
	case "55000": // nothing can end a wait early
		isPreloaded, err = false, nil
	case "42883":
		err = fmt.Errorf("jobq is not in this database: %w", err)
	}
	if err != nil {
		return err
	}
	if w.pool.pooled || !isPreloaded {
		w.claims.wait = min(w.claims.wait, shortWait)
	}
	if w.handlerPool = w.options.Pool; w.handlerPool == nil {
		w.handlerPool, err = w.newPool()
	}
	return err
}

// await returns when the worker has no more jobs, or when the grace period is over, with the error of the claims.
func (w *Worker) await(hurry context.Context, claimed chan error) (failure error) {
	grace := time.After(w.options.Grace)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for claimed != nil || w.inHand() > 0 {
		select {
		case failure = <-claimed:
			claimed = nil
		case <-look.C:
		case <-grace:
			return failure
		case <-hurry.Done():
			return failure
		}
	}
	return failure
}

// wake ends the wait in the server.
func (w *Worker) wake() {
	if err := w.repeat(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT jobq_wake($1)", w.options.WorkerID)
		return err
	}); err != nil {
		w.log.Warn("could not end the wait for jobs", "error", describe(err))
	}
}

// giveBack ends the handlers after the grace period. Handlers that check their context get a second to stop; then the jobs of the other
// handlers are released. The function waits for the reports of handlers that have ended.
func (w *Worker) giveBack() (failure error) {
	deadline := time.Now().Add(5 * time.Second)
	w.giveUpAt.Store(&deadline)
	for _, job := range w.held() {
		job.stop(ErrStopping)
	}
	for look := 0; look < 50 && w.inHand() > 0; look++ {
		time.Sleep(20 * time.Millisecond)
	}
	for _, job := range w.held() {
		job.mutex.Lock()
		ended := job.reporting
		job.reporting = true
		job.mutex.Unlock()
		if ended {
			continue
		}
		released := false
		if err := w.repeat(func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT jobq_release($1, $2)", job.ID, job.Lease).Scan(&released)
		}); err != nil {
			failure = fmt.Errorf("job %d could not be released: %w", job.ID, err)
		} else if released {
			w.logOf(job).Info("released, because its handler has not stopped")
		}
		w.end(job)
	}
	for w.inHand() > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, job := range w.held() {
		w.couldNotReport(job)
	}
	w.leave()
	if failure == nil && w.unreported.Load() {
		failure = errors.New("not all jobs could be reported")
	}
	return failure
}

func (w *Worker) couldNotReport(job *Job) {
	w.logOf(job).Error("the outcome of the job could not be reported")
	w.unreported.Store(true)
}

// begin starts the handler of a claimed job.
func (w *Worker) begin(job *Job) {
	ctx, cancel := context.WithCancelCause(context.Background())
	job.cancel = cancel
	stopping := w.stopping.Err() != nil
	job.reporting = stopping
	w.mutex.Lock()
	w.running[job.Lease] = job
	w.mutex.Unlock()
	go func() {
		defer w.end(job)
		if stopping {
			w.report(job, "released", "SELECT jobq_release($1, $2)", job.ID, job.Lease)
			return
		}
		result, err := w.call(ctx, job)
		w.conclude(job, result, err)
	}()
}

func (w *Worker) end(job *Job) {
	job.cancel(nil)
	w.mutex.Lock()
	delete(w.running, job.Lease)
	w.mutex.Unlock()
	select {
	case w.slotFree <- struct{}{}:
	default:
	}
}

func (w *Worker) inHand() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running)
}

func (w *Worker) held() []*Job {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Collect(maps.Values(w.running))
}

// logOf returns the log for lines about a job.
func (w *Worker) logOf(job *Job) *slog.Logger {
	return w.log.With("job", job.ID, "kind", job.Kind, "attempt", job.Attempt)
}
