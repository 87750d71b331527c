package jobq

// The tests need a database with jobq, selected by PGHOST and so on, and a role that may do everything there.

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is longer than a loaded machine needs.
const patience = time.Minute

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newWorker(t *testing.T, options Options) *Worker {
	t.Helper()
	worker, err := NewWorker("", options)
	if err != nil {
		t.Fatal(err)
	}
	return worker
}

// start runs the worker until the end of the test, or until the returned function is called, which returns the error of Run.
func start(t *testing.T, worker *Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * patience):
			t.Error("the worker does not stop")
			return nil
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return stop
}

// until waits until the query returns true.
func until(t *testing.T, db *pgxpool.Pool, query string, arguments ...any) {
	t.Helper()
	isTrue := false
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := db.QueryRow(t.Context(), query, arguments...).Scan(&isTrue); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if isTrue {
			return
		}
	}
	t.Fatalf("not after a minute: %s %v", query, arguments)
}

// enqueue enqueues a job, and returns its id.
func enqueue(t *testing.T, db DB, spec Spec) int64 {
	t.Helper()
	job, err := Enqueue(t.Context(), db, spec)
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// memory is a log that tests can read.
type memory struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (m *memory) Write(line []byte) (int, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.text.Write(line)
}

func (m *memory) contains(text string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return strings.Contains(m.text.String(), text)
}

func newLog() (*slog.Logger, *memory) {
	log := &memory{}
	return slog.New(slog.NewTextHandler(log, nil)), log
}
