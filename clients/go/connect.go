package jobq

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// answeredWithin is the maximum time for an answer, because a vanished host sends nothing, and TCP retransmits for about 15 minutes.
const answeredWithin = 30 * time.Second

const connectTimeout = 10 * time.Second

// config returns the configuration of the worker's connections.
func (w *Worker) config(ctx context.Context) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(w.connString)
	if err != nil {
		return nil, err
	}
	w.prepare(config)
	// This mode needs one round trip, and no prepared statement, which would not exist in the next transaction behind a pooler.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if w.options.BeforeConnect != nil {
		err = w.options.BeforeConnect(ctx, config)
	}
	return config, err
}

// prepare sets what all connections of the worker and of its handlers have in common.
func (w *Worker) prepare(config *pgx.ConnConfig) {
	config.RuntimeParams["client_encoding"] = "UTF8"
	if _, given := config.RuntimeParams["application_name"]; !given {
		name := ascii("jobq " + strings.Join(w.options.Queues, ",") + " " + w.options.WorkerID)
		config.RuntimeParams["application_name"] = name[:min(len(name), 63)]
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	// Keepalives detect a vanished server within about two minutes if no data is in flight.
	config.DialFunc = (&net.Dialer{KeepAlive: 10 * time.Second, Timeout: config.ConnectTimeout}).DialContext
}

// newPool returns the pool of the handlers, which connects when it is used.
func (w *Worker) newPool() (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(w.connString)
	if err != nil {
		return nil, err
	}
	w.prepare(config.ConnConfig)
	if w.pool.pooled && config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	config.BeforeConnect = w.options.BeforeConnect
	config.MaxConns = int32(w.options.Slots)
	config.MinConns = 0
	return pgxpool.NewWithConfig(context.Background(), config)
}

// retryError is the error of a statement that needs another try, because it is unknown whether it was executed, or because it collided
// with another transaction.
type retryError struct{ cause error }

func (e *retryError) Error() string { return describe(e.cause) }
func (e *retryError) Unwrap() error { return e.cause }

func needsRetry(err error) bool {
	var retry *retryError
	return errors.As(err, &retry)
}

// isBroken returns whether the error requires a new connection.
func isBroken(conn *pgx.Conn, err error) bool {
	state := sqlState(err)
	if conn.IsClosed() || len(state) < 2 {
		return true
	}
	return slices.Contains([]string{"08", "53", "57", "58"}, state[:2]) && state != "57014" || state == "25006"
}

// link is a connection that is opened when it is needed, and again after it has broken.
type link struct {
	worker *Worker
	mutex  sync.Mutex
	conn   *pgx.Conn
}

// do calls the function with the connection. It returns a *retryError if the function needs another try.
func (l *link) do(within time.Duration, function func(ctx context.Context, conn *pgx.Conn) error) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.conn == nil {
		if err := l.open(); err != nil {
			return &retryError{err}
		}
	}
	// Not derived from the worker's context, because the answer to a statement must be read.
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := function(ctx, l.conn)
	if err == nil {
		return nil
	}
	if isBroken(l.conn, err) {
		l.close()
		return &retryError{err}
	}
	if isTransient(err) {
		return &retryError{err}
	}
	return err
}

// isTransient returns whether the statement needs another try on the same connection.
func isTransient(err error) bool {
	state := sqlState(err)
	return isCollision(state) || state == "55P03" || state == "57014"
}

// open opens the connection. The caller holds the mutex, unless nothing else uses the link yet.
func (l *link) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), answeredWithin)
	defer cancel()
	config, err := l.worker.config(ctx)
	if err != nil {
		return err
	}
	l.conn, err = pgx.ConnectConfig(ctx, config)
	return err
}

// close closes the connection. The caller holds the mutex.
func (l *link) close() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.conn.Close(ctx)
	l.conn = nil
}

// shut closes the connection as soon as nothing uses it.
func (l *link) shut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.close()
}

// disconnect closes the connections of a worker that has stopped. It does not wait, because a handler that has not ended may use one.
func (w *Worker) disconnect() {
	for _, link := range []*link{&w.claims.link, &w.heartbeats, &w.reports} {
		go link.shut()
	}
	if w.handlerPool != nil && w.handlerPool != w.options.Pool {
		go w.handlerPool.Close()
	}
}

// repeat calls a function of the link for reports until it needs no other try, or until the time for the last reports is over.
func (w *Worker) repeat(function func(ctx context.Context, conn *pgx.Conn) error) error {
	for tries := 0; ; tries++ {
		begun := time.Now()
		err := w.reports.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
			begun = time.Now() // the wait for the link is no wait for the server
			defer func() { w.answered(time.Since(begun)) }()
			return function(ctx, conn)
		})
		if !needsRetry(err) {
			return err
		}
		if w.isLate() {
			return err
		}
		w.log.Warn("a report needs another try", "error", err)
		time.Sleep(min(pauseAfter(tries), time.Second))
	}
}

// isLate returns whether the time for the last reports is over.
func (w *Worker) isLate() bool {
	at := w.giveUpAt.Load()
	return at != nil && time.Now().After(*at)
}

// pauseAfter returns the pause after a failed try: longer after each try, up to 5 s, and partly random.
func pauseAfter(tries int) time.Duration {
	longest := min(100*time.Millisecond<<min(tries, 6), 5*time.Second)
	return longest/2 + rand.N(longest/2)
}
