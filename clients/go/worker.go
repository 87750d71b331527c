// A jobq worker in Go that uses pgx v4. Copy this file, and register handlers as main in scenario.go does. Contract:
// clients/CONTRACT.md.
//
// The connection "claims" claims and waits, the connection "beats" sends heartbeats and reports, and each job that calls Conn has
// a connection. With PgBouncer before 1.21, pgx must neither name prepared statements nor prepare and execute in separate
// messages, so use stmtcache.ModeDescribe.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgconn/stmtcache"
	"github.com/jackc/pgx/v4"
)

// Handler returns the result of the job, which is stored as JSON. A handler should stop when ctx is done; job.Reason returns why.
type Handler func(ctx context.Context, job *Job) (interface{}, error)

// Fail is a failure that is retried after RetryIn, or never if Final is true. Any other error is retried after the queue's
// backoff.
type Fail struct {
	Message string
	RetryIn *time.Duration
	Final   bool
}

func (f *Fail) Error() string { return f.Message }

// Snooze gives the job back, to run again after the delay. The attempt is not counted.
type Snooze struct{ Delay time.Duration }

func (s *Snooze) Error() string { return "snoozed" }

var (
	errLost    = errors.New("the lease is lost")
	errWaiting = errors.New("the job was given back and will run again")
)

// Job is the job that a handler receives.
type Job struct {
	ID, Lease        int64
	Kind             string
	Payload          json.RawMessage
	Attempt          int
	Progress         json.RawMessage // the last progress that an earlier attempt reported
	Metadata         json.RawMessage
	heartbeatSeconds int

	worker    *Worker
	cancel    context.CancelFunc
	mutex     sync.Mutex
	reason    string
	progress  []byte
	beatAt    time.Time
	reporting bool
	done      bool // completed by Completing
	conn      *pgx.Conn
}

// Reason returns why the handler should stop: "", "cancel", "lost" or "stopping".
func (j *Job) Reason() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.reason
}

func (j *Job) lastBeat() time.Time {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.beatAt
}

func (j *Job) stop(reason string) {
	j.mutex.Lock()
	if j.reason == "" || reason == "lost" {
		j.reason = reason
	}
	j.mutex.Unlock()
	j.cancel()
}

// SetProgress stores progress, which is sent with a heartbeat within about a second.
func (j *Job) SetProgress(value interface{}) error {
	text, err := json.Marshal(value)
	if err == nil {
		j.mutex.Lock()
		j.progress = text
		j.mutex.Unlock()
	}
	return err
}

// Conn returns a connection of the job's own. The worker closes it when the handler has returned.
func (j *Job) Conn(ctx context.Context) (*pgx.Conn, error) {
	if j.conn != nil && !j.conn.IsClosed() {
		return j.conn, nil
	}
	conn, err := j.worker.connect(ctx)
	j.conn = conn
	return conn, err
}

// Completing commits the writes of the function together with the completion of the job, or neither.
func (j *Job) Completing(ctx context.Context, function func(tx pgx.Tx) (interface{}, error)) error {
	conn, err := j.Conn(ctx)
	if err != nil {
		return err
	}
	err = commitWith(ctx, conn, function, func(tx pgx.Tx, text string) error {
		_, err := tx.Exec(ctx, "SELECT jobq_complete($1, $2, $3::text::jsonb, must_hold => true)", j.ID, j.Lease, text)
		return err
	})
	j.done = err == nil
	return err
}

// commitWith commits the writes of the function together with the statement of last, which receives the function's result as
// JSON.
func commitWith(ctx context.Context, conn *pgx.Conn, function func(tx pgx.Tx) (interface{}, error), last func(tx pgx.Tx, text string) error) error {
	err := conn.BeginFunc(ctx, func(tx pgx.Tx) error {
		result, err := function(tx)
		if err != nil {
			return err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return err
		}
		return last(tx, string(text))
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "JQ001" {
		return errLost
	}
	return err
}

// ask returns the state of the step or wait, and its saved JSON.
func (j *Job) ask(ctx context.Context, conn *pgx.Conn, statement, name string) (state string, text json.RawMessage, err error) {
	var saved *string
	if err = conn.QueryRow(ctx, statement, j.ID, j.Lease, name).Scan(&state, &saved); err != nil {
		return "", nil, err
	}
	switch state {
	case "waiting":
		return "", nil, errWaiting
	case "lost":
		return "", nil, errLost
	case "cancel", "cancelled":
		j.stop("cancel")
		return "", nil, context.Canceled
	}
	return state, raw(saved), nil
}

// Step calls the function once, even if the job is retried: its writes commit together with its result.
func (j *Job) Step(ctx context.Context, name string, function func(tx pgx.Tx) (interface{}, error)) (json.RawMessage, error) {
	conn, err := j.Conn(ctx)
	if err != nil {
		return nil, err
	}
	state, result, err := j.ask(ctx, conn, "SELECT state, result::text FROM jobq_step($1, $2, $3)", name)
	if err != nil || state == "done" {
		return result, err
	}
	var saved *string
	err = commitWith(ctx, conn, function, func(tx pgx.Tx, text string) error {
		row := tx.QueryRow(ctx, "SELECT result::text FROM jobq_step_done($1, $2, $3, $4::text::jsonb)", j.ID, j.Lease, name, text)
		return row.Scan(&saved)
	})
	return raw(saved), err
}

// WaitFor returns the payload of a signal. The job occupies no worker while it waits: until the signal arrives, WaitFor returns
// an error, which the handler must return unchanged, and the job is given back.
func (j *Job) WaitFor(ctx context.Context, event string) (json.RawMessage, error) {
	conn, err := j.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_, payload, err := j.ask(ctx, conn, "SELECT state, payload::text FROM jobq_await($1, $2, $3)", event)
	return payload, err
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// ---- the worker

// Worker serves one queue.
type Worker struct {
	Queue, WorkerID                     string
	Slots                               int
	HeartbeatTimeout, HeartbeatInterval time.Duration // 0: the queue's default
	WaitTimeout, Grace                  time.Duration
	Handlers                            map[string]Handler // by kind; the key "" handles jobs without a kind
	ConnString                          string
	kinds                               []string
	mutex                               sync.Mutex
	running                             map[int64]*Job // by lease
	conflicts                           map[int64]int  // number of collisions of the job's own transaction, by job ID
	waitsCanceled                       bool
	lookAt                              time.Time // next check for jobs of other kinds
	pooled, hasPolled                   bool
	pollsUntil                          time.Time // zero if the worker waits in the server
	polls                               int       // number of polls in a row
	slotFree                            chan struct{}
	stopping, unreported                bool
	giveUpAt                            time.Time // deadline for the last reports
	stopped                             context.Context
	signals                             chan os.Signal // used by RunAll
	claims, beats                       *pgx.Conn
	beatsMutex                          sync.Mutex
}

// WorkerFromEnvironment returns a worker with the options in environment variables such as JOBQ_QUEUE and JOBQ_SLOTS.
func WorkerFromEnvironment(handlers map[string]Handler) (*Worker, error) {
	host, _ := os.Hostname()
	w := &Worker{Queue: option("QUEUE", "default"), Slots: 1, Handlers: handlers,
		WorkerID: option("WORKER_ID", fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), rand.New(rand.NewSource(time.Now().UnixNano())).Uint32()))}
	if strings.HasPrefix(w.WorkerID, "backend:") {
		return nil, fmt.Errorf(`option "worker_id" must not begin with "backend:"; it is %q`, w.WorkerID)
	}
	slots, err := strconv.Atoi(option("SLOTS", "1"))
	if err != nil || slots < 1 || slots > 1000 {
		return nil, fmt.Errorf(`option "slots" must be an integer from 1 to 1000; it is %q`, option("SLOTS", "1"))
	}
	w.Slots = slots
	for _, one := range []struct {
		name, standard string
		value          *time.Duration
	}{{"HEARTBEAT_TIMEOUT", "0", &w.HeartbeatTimeout}, {"HEARTBEAT_INTERVAL", "0", &w.HeartbeatInterval},
		{"WAIT_TIMEOUT", "30", &w.WaitTimeout}, {"GRACE", "25", &w.Grace}} {
		seconds, err := strconv.ParseFloat(option(one.name, one.standard), 64)
		if err != nil || !(seconds >= 0 && seconds <= 365*86400) {
			return nil, fmt.Errorf("option %q must be a number of seconds; it is %q", strings.ToLower(one.name), option(one.name, ""))
		}
		if strings.HasPrefix(one.name, "HEARTBEAT") && seconds < 0.01 && option(one.name, "") != "" {
			return nil, fmt.Errorf("option %q must be a number of seconds, at least 0.01; it is %q", strings.ToLower(one.name), option(one.name, ""))
		}
		*one.value = time.Duration(seconds * float64(time.Second))
	}
	return w, nil
}

func option(name, standard string) string {
	if value := os.Getenv("JOBQ_" + name); value != "" {
		return value
	}
	return standard
}

// Run works until SIGTERM or SIGINT. The process should end when Run returns, because abandoned handlers still run.
func (w *Worker) Run() error {
	w.running, w.conflicts, w.slotFree = map[int64]*Job{}, map[int64]int{}, make(chan struct{}, w.Slots)
	for kind := range w.Handlers {
		w.kinds = append(w.kinds, kind)
	}
	sort.Strings(w.kinds)
	if err := w.open(); err != nil {
		return err
	}
	log.Printf("%s: serves queue %q, kinds %q; leaves jobs of other kinds to other workers", w.WorkerID, w.Queue, w.kinds)
	stopped, stop := context.WithCancel(context.Background())
	w.stopped = stopped
	signals := w.signals
	if signals == nil {
		signals = make(chan os.Signal, 3)
	}
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	claimed := make(chan error, 1)
	go w.heartbeatAll()
	go func() { claimed <- w.claimAll() }()

	var failure error
	claiming := true
	select {
	case <-signals:
	case failure = <-claimed:
		claiming = false
	}
	w.mutex.Lock()
	w.stopping = true
	w.mutex.Unlock()
	stop()
	log.Printf("%s: stopping, no more claims", w.WorkerID)
	if claiming {
		go w.wake()
		failure = w.await(signals, claimed)
	} else {
		w.await(signals, nil)
	}
	given := make(chan error, 1)
	go func() { given <- w.giveBack() }()
	select {
	case err := <-given:
		if err != nil {
			return err
		}
	case <-time.After(10 * time.Second): // a pooler without a server does not answer
		return errors.New("jobs could not be released: there is no answer")
	}
	log.Printf("%s: stopped", w.WorkerID)
	return failure
}

// RunAll runs several workers in one process and returns the first error. If a worker ends with an error, the others stop as
// after SIGTERM, so that the process does not continue with only some of its workers.
func RunAll(workers ...*Worker) (failure error) {
	ended := make(chan error, len(workers))
	for _, w := range workers {
		w.signals = make(chan os.Signal, 3)
	}
	for _, w := range workers {
		w := w
		go func() { ended <- w.Run() }()
	}
	for range workers {
		err := <-ended
		if err == nil || failure != nil {
			continue
		}
		failure = err
		log.Printf("stopping all workers, because one has ended: %v", err)
		for _, w := range workers {
			select {
			case w.signals <- syscall.SIGTERM:
			default: // the worker has already been told
			}
		}
	}
	return failure
}

// await returns when there are no jobs in hand, the grace period is over, or another signal arrives.
func (w *Worker) await(signals chan os.Signal, claimed chan error) (failure error) {
	grace := time.After(w.Grace)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for claimed != nil || w.inHand() > 0 {
		select {
		case failure = <-claimed:
			claimed = nil
		case <-look.C:
		case <-grace:
			return failure
		case <-signals:
			return failure
		}
	}
	return failure
}

func (w *Worker) inHand() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running)
}

func (w *Worker) held() []*Job {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	jobs := make([]*Job, 0, len(w.running))
	for _, job := range w.running {
		jobs = append(jobs, job)
	}
	return jobs
}

// giveBack ends the handlers after the grace period. Handlers that check for cancellation get a second to stop; then the jobs of
// the other handlers are released. The function waits for the reports of handlers that have ended.
func (w *Worker) giveBack() (failure error) {
	w.mutex.Lock()
	w.giveUpAt = time.Now().Add(5 * time.Second)
	w.mutex.Unlock()
	for _, job := range w.held() {
		job.stop("stopping")
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
		if err := w.withBeats(func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT jobq_release($1, $2)", job.ID, job.Lease).Scan(&released)
		}); err != nil {
			failure = fmt.Errorf("job %d could not be released: %w", job.ID, err)
		} else if released {
			log.Printf("%s: job %d of kind %q: released, its handler has not stopped", w.WorkerID, job.ID, job.Kind)
		}
		w.end(job)
	}
	for w.inHand() > 0 && time.Now().Before(w.giveUpAt) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, job := range w.held() {
		w.couldNotReport(job)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if failure == nil && w.unreported {
		failure = errors.New("not all jobs could be reported")
	}
	return failure
}

func (w *Worker) couldNotReport(job *Job) {
	log.Printf("%s: job %d of kind %q could not be reported", w.WorkerID, job.ID, job.Kind)
	w.mutex.Lock()
	w.unreported = true
	w.mutex.Unlock()
}

// ---- connections

// Maximum time for an answer, because a vanished host sends nothing, and TCP retransmits for about 15 minutes.
const answeredWithin = 30 * time.Second

func (w *Worker) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(w.ConnString)
	if err != nil {
		return nil, err
	}
	config.BuildStatementCache = func(conn *pgconn.PgConn) stmtcache.Cache {
		return stmtcache.New(conn, stmtcache.ModeDescribe, 100)
	}
	config.RuntimeParams["client_encoding"] = "UTF8"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	// Keepalives detect a vanished server within about two minutes if no data is in flight.
	config.DialFunc = (&net.Dialer{KeepAlive: 10 * time.Second, Timeout: config.ConnectTimeout}).DialContext
	return pgx.ConnectConfig(ctx, config)
}

func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn.Close(ctx)
}

// open opens the first connections and fails if one of them fails.
func (w *Worker) open() (err error) {
	if w.claims, err = w.connect(context.Background()); err != nil {
		return err
	}
	if w.beats, err = w.connect(context.Background()); err != nil {
		return err
	}
	var pid int32
	if err = w.beats.QueryRow(context.Background(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if w.pooled = uint32(pid) != w.beats.PgConn().PID(); w.pooled && w.WaitTimeout > shortWait {
		w.WaitTimeout = shortWait
	}
	var refused *pgconn.PgError
	_, err = w.beats.Exec(context.Background(), "SELECT jobq_wake($1)", w.WorkerID)
	if errors.As(err, &refused) && refused.Code == "55000" { // not preloaded: waits cannot be woken
		err = nil
		if w.WaitTimeout > shortWait {
			w.WaitTimeout = shortWait
		}
	}
	if errors.As(err, &refused) && refused.Code == "42883" {
		err = fmt.Errorf("jobq is not in this database: %w%s", err, hintOf(err))
	}
	return err
}

// isBroken returns whether the error requires a new connection. Collisions (40001, 40P01) only need another try, which a new
// connection also provides.
func isBroken(conn *pgx.Conn, err error) bool {
	var refused *pgconn.PgError
	if err == nil {
		return false
	}
	if conn == nil || conn.IsClosed() || !errors.As(err, &refused) {
		return true
	}
	return strings.Contains(" 08 53 57 58 ", " "+refused.Code[:2]+" ") || strings.Contains(" 25006 40001 40P01 ", " "+refused.Code+" ")
}

func pause(tries int) time.Duration {
	longest := 100 * time.Millisecond << uint(tries)
	if tries > 6 || longest > 5*time.Second {
		longest = 5 * time.Second
	}
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)))
}

// withBeats repeats the function until it gets a working connection. It does not hold the mutex while it waits for a connection.
func (w *Worker) withBeats(function func(ctx context.Context, conn *pgx.Conn) error) error {
	for tries := 0; ; tries++ {
		err := w.tryBeats(function)
		if !errors.Is(err, errBroken) {
			return err
		}
		w.mutex.Lock()
		late := !w.giveUpAt.IsZero() && time.Now().After(w.giveUpAt)
		w.mutex.Unlock()
		if late {
			return err
		}
		time.Sleep(pause(tries))
	}
}

var errBroken = errors.New("the connection is broken")

func (w *Worker) tryBeats(function func(ctx context.Context, conn *pgx.Conn) error) (err error) {
	w.beatsMutex.Lock()
	defer w.beatsMutex.Unlock()
	if w.beats == nil {
		if w.beats, err = w.connect(context.Background()); err != nil {
			log.Printf("%s: no connection, trying again: %v", w.WorkerID, err)
			w.beats = nil
			return errBroken
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), answeredWithin)
	defer cancel()
	begun := time.Now()
	err = function(ctx, w.beats)
	w.answered(time.Since(begun))
	if isBroken(w.beats, err) {
		log.Printf("%s: the connection is broken: %v", w.WorkerID, err)
		closeSoon(w.beats)
		w.beats = nil
		return errBroken
	}
	return err
}

// ---- small pools: see clients/CONTRACT.md

const (
	shortWait   = 2 * time.Second // length of a wait that cannot be woken or that uses a pooler
	firstPoll   = 50 * time.Millisecond
	longestPoll = time.Second
)

// answered makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool.
func (w *Worker) answered(took time.Duration) {
	limit := time.Second
	for _, job := range w.held() {
		limit = shorter(limit, w.interval(job)/4)
	}
	for _, interval := range []time.Duration{w.HeartbeatInterval, w.HeartbeatTimeout / 3} {
		if interval > 0 {
			limit = shorter(limit, interval/4)
		}
	}
	if limit < 250*time.Millisecond {
		limit = 250 * time.Millisecond
	}
	if !w.pooled || took <= limit {
		return
	}
	w.mutex.Lock()
	begins := w.pollsUntil.IsZero()
	w.pollsUntil = time.Now().Add(time.Minute + time.Duration(rand.Int63n(int64(time.Minute))))
	warn := begins && !w.hasPolled
	w.hasPolled = true
	w.mutex.Unlock()
	if begins {
		log.Printf("%s: %sanswers take %.1f s behind the connection pooler, whose pool may have fewer connections than there are workers: "+
			"polling instead of waiting", w.WorkerID, map[bool]string{true: "warning: "}[warn], took.Seconds())
	}
}

func shorter(one, other time.Duration) time.Duration {
	if one < other {
		return one
	}
	return other
}

// pollPause returns the pause after an empty claim, or 0 if the worker waits in the server.
func (w *Worker) pollPause() time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.pollsUntil.IsZero() {
		return 0
	}
	if time.Now().After(w.pollsUntil) {
		w.pollsUntil, w.polls = time.Time{}, 0
		log.Printf("%s: answers are fast again: waiting instead of polling", w.WorkerID)
		return 0
	}
	w.polls++
	if w.polls > 10 {
		return longestPoll
	}
	return shorter(longestPoll, firstPoll<<uint(w.polls-1))
}

func (w *Worker) wake() {
	if err := w.withBeats(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT jobq_wake($1)", w.WorkerID)
		return err
	}); err != nil {
		log.Printf("%s: the wait could not be woken: %v", w.WorkerID, err)
	}
}

// ---- claims

func (w *Worker) claimAll() error {
	tries := 0
	for w.stopped.Err() == nil {
		room := w.Slots - w.inHand()
		if room == 0 {
			select {
			case <-w.slotFree:
			case <-w.stopped.Done():
			}
			continue
		}
		err := w.claimOnce(room)
		if isBroken(w.claims, err) {
			log.Printf("%s: no connection for claims, trying again: %v", w.WorkerID, err)
			if w.claims != nil {
				closeSoon(w.claims)
			}
			select {
			case <-time.After(pause(tries)):
			case <-w.stopped.Done():
			}
			tries++
			if w.claims, err = w.connect(w.stopped); err != nil {
				log.Printf("%s: no connection for claims: %v", w.WorkerID, err)
				w.claims = nil
			}
		} else if err != nil {
			return fmt.Errorf("the claim was refused: %w%s", err, hintOf(err))
		} else {
			tries = 0
		}
	}
	return nil
}

func (w *Worker) claimOnce(room int) error {
	if w.claims == nil {
		return errBroken
	}
	// Not derived from the worker's context, because the answer to a claim must be read.
	ctx, cancel := context.WithTimeout(context.Background(), answeredWithin+w.WaitTimeout)
	defer cancel()
	w.lookForOthers(ctx)
	var timeout *string
	if w.HeartbeatTimeout > 0 {
		text := seconds(w.HeartbeatTimeout)
		timeout = &text
	}
	begun := time.Now()
	rows, err := w.claims.Query(ctx, `SELECT id, lease, kind, payload::text, attempt, progress::text, metadata::text, heartbeat_seconds
		FROM jobq_claim($1, $2, $3, $4, heartbeat_timeout => $5::text::interval)`, w.Queue, w.WorkerID, room, w.kinds, timeout)
	if err != nil {
		return err
	}
	// Start the handlers only after the complete answer, because the server commits the claim after it has sent the last row.
	var jobs []*Job
	for rows.Next() {
		job := &Job{worker: w, beatAt: time.Now()}
		var payload string
		var progress, metadata *string
		if err := rows.Scan(&job.ID, &job.Lease, &job.Kind, &payload, &job.Attempt, &progress, &metadata, &job.heartbeatSeconds); err != nil {
			return err
		}
		job.Payload, job.Progress, job.Metadata = json.RawMessage(payload), raw(progress), raw(metadata)
		jobs = append(jobs, job)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	w.answered(time.Since(begun))
	for _, job := range jobs {
		w.begin(job)
	}
	if len(jobs) > 0 {
		w.polls = 0
		return nil
	}
	if pause := w.pollPause(); pause > 0 {
		select {
		case <-time.After(pause):
		case <-w.stopped.Done():
		}
		return nil
	}
	_, err = w.claims.Exec(ctx, "CALL jobq_wait($1::text, $2::text::interval, $3::text[], worker_id => $4::text, batch => $5::int)", w.Queue,
		seconds(w.WaitTimeout), w.kinds, w.WorkerID, room)
	if sqlState(err) != "57014" {
		return err
	}
	if !w.waitsCanceled {
		w.waitsCanceled = true
		var setting string
		w.claims.QueryRow(ctx, "SHOW statement_timeout").Scan(&setting)
		log.Printf("%s: the server canceled a wait: %v. The setting statement_timeout of this role or database is %s, and wait_timeout is %s.",
			w.WorkerID, err, setting, seconds(w.WaitTimeout))
	}
	return nil
}

// Time between two checks for jobs of the queue that the worker does not claim.
const looksEvery = 10 * time.Minute

// lookForOthers logs which jobs wait in the queue that have no kind, or a kind without a handler here. It reads at most a
// thousand jobs of each lane. If the role cannot read the tables, only the first check runs.
func (w *Worker) lookForOthers(ctx context.Context) {
	if time.Now().Before(w.lookAt) {
		return
	}
	w.lookAt = time.Now().Add(looksEvery)
	var found *string
	err := w.claims.QueryRow(ctx, `SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
		FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
			FROM jobq.lane_directory d WHERE d.queue = $1 AND d.kind <> ALL ($2::text[]) GROUP BY d.kind) counted WHERE n > 0`,
		w.Queue, w.kinds).Scan(&found)
	if sqlState(err) == "42501" {
		w.lookAt = time.Now().Add(100 * 365 * 24 * time.Hour)
	} else if found != nil { // the claim will notice a broken connection
		log.Printf("%s: jobs that this worker does not claim are waiting in queue %q: %s", w.WorkerID, w.Queue, *found)
	}
}

func seconds(duration time.Duration) string { return fmt.Sprintf("%f s", duration.Seconds()) }

func (w *Worker) begin(job *Job) {
	ctx, cancel := context.WithCancel(context.Background())
	job.cancel = cancel
	w.mutex.Lock()
	stopping := w.stopping
	job.reporting = stopping
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

func (w *Worker) call(ctx context.Context, job *Job) (result interface{}, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			log.Printf("%s: job %d: panic: %v\n%s", w.WorkerID, job.ID, broken, debug.Stack())
			err = fmt.Errorf("panic: %v", broken)
		}
		if job.conn != nil {
			closeSoon(job.conn)
		}
	}()
	return w.Handlers[job.Kind](ctx, job)
}

func (w *Worker) end(job *Job) {
	job.cancel()
	w.mutex.Lock()
	delete(w.running, job.Lease)
	w.mutex.Unlock()
	select {
	case w.slotFree <- struct{}{}:
	default:
	}
}

// ---- reports

// conclude reports the outcome of a handler.
func (w *Worker) conclude(job *Job, result interface{}, err error) {
	job.mutex.Lock()
	given, reason, progress := job.reporting, job.reason, job.progress
	job.reporting, job.progress = true, nil
	job.mutex.Unlock()
	if given || job.done || errors.Is(err, errWaiting) {
		return
	}
	if reason == "lost" || errors.Is(err, errLost) {
		log.Printf("%s: job %d of kind %q: the lease is lost", w.WorkerID, job.ID, job.Kind)
		return
	}
	if progress != nil {
		w.report(job, "progress", "SELECT jobq_heartbeat($1, $2, $3::text::jsonb) IN ('held', 'cancel')", job.ID, job.Lease, string(progress))
	}
	var fail *Fail
	var snooze *Snooze
	var refused error
	var text *string // nil becomes NULL
	if err == nil && result != nil {
		var encoded []byte
		encoded, err = json.Marshal(result)
		written := string(encoded)
		text = &written
	}
	switch {
	case err == nil:
		refused = w.report(job, "completed", "SELECT jobq_complete($1, $2, $3::text::jsonb)", job.ID, job.Lease, text)
	case errors.As(err, &snooze):
		refused = w.report(job, "snoozed", "SELECT jobq_snooze($1, $3::text::interval, $2)", job.ID, job.Lease, seconds(snooze.Delay))
	case errors.Is(err, context.Canceled) && reason == "stopping":
		refused = w.report(job, "released", "SELECT jobq_release($1, $2)", job.ID, job.Lease)
	case errors.Is(err, context.Canceled) && reason == "cancel":
		refused = w.fail(job, &Fail{Message: "cancelled"})
	case w.givesBack(job, err):
		refused = w.report(job, "released", "SELECT jobq_release($1, $2)", job.ID, job.Lease)
	case errors.As(err, &fail):
		refused = w.fail(job, fail)
	default:
		refused = w.fail(job, &Fail{Message: fmt.Sprintf("%T: %v", err, err)})
	}
	if refused == nil {
		return
	}
	what, again := "result", &Fail{}
	if snooze != nil {
		what = "snooze"
	} else if err != nil {
		what = "failure"
	}
	if fail != nil {
		*again = *fail
	}
	again.Message = fmt.Sprintf("the %s was refused: %v", what, refused)
	if w.fail(job, again) != nil && again.RetryIn != nil { // the server may have rejected the delay
		again.RetryIn = nil
		w.fail(job, again)
	}
}

func (w *Worker) fail(job *Job, fail *Fail) (refused error) {
	var retryIn *string
	if fail.RetryIn != nil {
		text := seconds(*fail.RetryIn)
		retryIn = &text
	}
	message := strings.ReplaceAll(strings.ToValidUTF8(fail.Message, "?"), "\x00", "\\0")
	if fail.Message == "cancelled" {
		log.Printf("%s: job %d of kind %q, attempt %d: cancelled", w.WorkerID, job.ID, job.Kind, job.Attempt)
	} else {
		log.Printf("%s: job %d of kind %q, attempt %d, has failed: %s", w.WorkerID, job.ID, job.Kind, job.Attempt, message)
	}
	send := func(text string) error {
		return w.report(job, "failed", "SELECT jobq_fail($1, $2, $3, $4::text::interval, $5) IS NOT NULL", job.ID, job.Lease, text, retryIn, !fail.Final)
	}
	refused = send(message)
	if state := sqlState(refused); state == "22P05" || state == "22021" { // not in the encoding of the database
		refused = send(strings.Map(func(char rune) rune {
			if char > 127 {
				return '?'
			}
			return char
		}, message))
	}
	return refused
}

// Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The next
// collision counts as a failed attempt, so that a job that always collides ends.
const mostConflicts = 10

// givesBack returns whether the job runs again without counting the attempt, because its own transaction ended with 40001 or
// 40P01.
func (w *Worker) givesBack(job *Job, err error) bool {
	state := sqlState(err)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if (state != "40001" && state != "40P01") || w.conflicts[job.ID] >= mostConflicts {
		delete(w.conflicts, job.ID)
		return false
	}
	if len(w.conflicts) > 1000 { // removes entries of jobs that other workers have completed
		w.conflicts = map[int64]int{}
	}
	w.conflicts[job.ID]++
	log.Printf("%s: job %d of kind %q: its transaction collided with another one (SQLSTATE %s), so it is given back: %d of %d times",
		w.WorkerID, job.ID, job.Kind, state, w.conflicts[job.ID], mostConflicts)
	return true
}

// hintOf returns the hint of the server's error for a message, or "".
func hintOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Hint != "" {
		return " HINT: " + refused.Hint
	}
	return ""
}

// sqlState returns the SQLSTATE of the server's error, or "".
func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// report sends a report until the server answers and returns the error with which the server rejects it.
func (w *Worker) report(job *Job, what, statement string, values ...interface{}) (refused error) {
	taken, state, tries := false, "", 0
	err := w.withBeats(func(ctx context.Context, conn *pgx.Conn) error {
		tries++
		if err := conn.QueryRow(ctx, statement, values...).Scan(&taken); err != nil || taken {
			return err
		}
		// Maybe an earlier try succeeded, but its answer was lost.
		return conn.QueryRow(ctx, "SELECT jobq_heartbeat($1, $2)", job.ID, job.Lease).Scan(&state)
	})
	switch {
	case errors.Is(err, errBroken):
		w.couldNotReport(job)
	case err != nil:
		log.Printf("%s: job %d: the report was refused: %s: %v%s", w.WorkerID, job.ID, what, err, hintOf(err))
		return err
	case taken || state == "finished" || state == "gone" && tries > 1: // gone: the queue keeps no finished jobs
		if what == "released" {
			log.Printf("%s: job %d of kind %q: released", w.WorkerID, job.ID, job.Kind)
		}
	default:
		log.Printf("%s: job %d of kind %q: the lease is lost", w.WorkerID, job.ID, job.Kind)
	}
	return nil
}

// ---- heartbeats

func (w *Worker) heartbeatAll() {
	for tries := 0; ; time.Sleep(50 * time.Millisecond) {
		if err := w.heartbeatDue(); err != nil {
			log.Printf("%s: heartbeats failed, trying again: %v%s", w.WorkerID, err, hintOf(err))
			time.Sleep(pause(tries))
			tries++
		} else {
			tries = 0
		}
	}
}

// heartbeatDue returns the first error; heartbeats that were not sent stay due. Sends the heartbeats of all jobs before progress,
// because progress may fail if its shard is down, and must not delay heartbeats.
func (w *Worker) heartbeatDue() error {
	var due, reported, progressed []*Job
	for _, job := range w.held() {
		isDue := time.Since(job.lastBeat()) >= w.interval(job)
		job.mutex.Lock()
		live := !job.reporting && job.reason != "lost"
		progress, silent := job.progress, time.Since(job.beatAt)
		if isDue && job.reporting && job.reason != "lost" {
			reported = append(reported, job)
			job.beatAt = time.Now()
		}
		job.mutex.Unlock()
		if live && isDue {
			due = append(due, job)
		}
		if live && progress != nil && (isDue || silent > 500*time.Millisecond) {
			progressed = append(progressed, job)
		}
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
	return nil
}

// heartbeatBriefly keeps the lease of a job whose report is in flight, and ignores the answer, because the report finds out the
// same. It waits only briefly, because an unanswered report may still lock the row, and the heartbeats of other jobs must not
// wait.
func (w *Worker) heartbeatBriefly(job *Job) error {
	err := w.tryBeats(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
			SELECT jobq_heartbeat($1, $2) FROM briefly`, job.ID, job.Lease)
		return err
	})
	if errors.Is(err, errBroken) {
		return err
	}
	return nil
}

func (w *Worker) heartbeatTogether(due []*Job) error {
	ids, leases, jobs := []int64{}, []int64{}, map[int64]*Job{}
	for _, job := range due {
		ids, leases = append(ids, job.ID), append(leases, job.Lease)
		jobs[job.Lease] = job
	}
	states := map[int64]string{}
	err := w.tryBeats(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT state FROM jobq_heartbeat_many($1, $2)", ids, leases)
		if err != nil {
			return err
		}
		for place := 0; rows.Next(); place++ { // rows are in the order of the ids
			var state string
			if err := rows.Scan(&state); err != nil {
				return err
			}
			states[leases[place]] = state
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for lease, state := range states {
		jobs[lease].heard(state)
	}
	return nil
}

func (w *Worker) interval(job *Job) time.Duration {
	shortest := time.Duration(job.heartbeatSeconds) * time.Second
	for _, other := range []time.Duration{w.HeartbeatInterval, w.HeartbeatTimeout / 3} {
		if other > 0 && other < shortest {
			shortest = other
		}
	}
	return shortest
}

// heartbeatWithProgress returns an error only if the connection is broken.
func (w *Worker) heartbeatWithProgress(job *Job) error {
	state := "held"
	var progress []byte
	err := w.tryBeats(func(ctx context.Context, conn *pgx.Conn) error {
		job.mutex.Lock()
		progress = job.progress // read here, because an earlier report may have sent it
		job.mutex.Unlock()
		if progress == nil {
			return nil
		}
		return conn.QueryRow(ctx, "SELECT jobq_heartbeat($1, $2, $3::text::jsonb)", job.ID, job.Lease, string(progress)).Scan(&state)
	})
	if errors.Is(err, errBroken) {
		return err
	}
	job.mutex.Lock()
	if string(job.progress) == string(progress) {
		job.progress = nil
	}
	job.mutex.Unlock()
	if err != nil {
		log.Printf("%s: progress of job %d was refused: %v%s", w.WorkerID, job.ID, err, hintOf(err))
		return nil
	}
	job.heard(state)
	return nil
}

func (j *Job) heard(state string) {
	j.mutex.Lock()
	j.beatAt = time.Now()
	reporting := j.reporting
	j.mutex.Unlock()
	switch {
	case reporting || state == "held" || state == "finished":
	case state == "cancel":
		j.stop("cancel")
	default:
		j.stop("lost")
	}
}
