package jobq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

type sent struct {
	Message string `json:"message"`
}

func TestHandlersAreTyped(t *testing.T) {
	pool := newPool(t)
	sendMail := Kind[mail]{Name: "send_mail", Queue: "go typed"}
	worker := newWorker(t, Options{Queues: []string{"go typed"}, Slots: 2})
	Handle(worker, sendMail, func(_ context.Context, job *Job, m mail) (sent, error) {
		job.Log(Info, "to "+m.To)
		if job.Queue != "go typed" || job.MaxAttempts != 3 || time.Since(job.CreatedAt).Abs() > time.Hour || string(job.Metadata) != `{"order": 17}` {
			return sent{}, fmt.Errorf("wrong columns: %+v", job)
		}
		return sent{m.Subject + " sent to " + m.To}, nil
	})
	start(t, worker)
	job, err := sendMail.Enqueue(t.Context(), pool, mail{"ada", `it's \ é`}, func(spec *Spec) {
		spec.MaxAttempts, spec.Metadata = 3, map[string]int{"order": 17}
	})
	if err != nil || !job.IsNew {
		t.Fatal(job, err)
	}
	until(t, pool, `SELECT status = 'completed' AND result->>'message' = E'it''s \\ é sent to ada' FROM jobq.jobs WHERE id = $1`, job.ID)
	until(t, pool, "SELECT count(*) = 1 FROM jobq.log_lines WHERE job_id = $1 AND line = 'to ada' AND level = 'info'", job.ID)
	wrong := enqueue(t, pool, Spec{Queue: "go typed", Kind: "send_mail", Payload: []int{1}, MaxAttempts: 1})
	until(t, pool, "SELECT status = 'failed' AND error LIKE '%is not a jobq.mail%' FROM jobq.jobs WHERE id = $1", wrong)
}

func TestNilResultIsNull(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go null"}})
	worker.Handle("", func(context.Context, *Job) (any, error) { return nil, nil })
	start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go null"})
	until(t, pool, "SELECT status = 'completed' AND result IS NULL AND payload = '{}' FROM jobq.jobs WHERE id = $1", id)
}

func TestCancellationEndsTheContext(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go cancel"}, HeartbeatInterval: 100 * time.Millisecond})
	causes := make(chan error, 1)
	worker.Handle("", func(ctx context.Context, job *Job) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go cancel"})
	until(t, pool, "SELECT status = 'processing' FROM jobq.jobs WHERE id = $1", id)
	until(t, pool, "SELECT jobq_cancel($1) IS NOT NULL", id)
	until(t, pool, "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $1", id)
	if cause := <-causes; cause != ErrCanceled {
		t.Error("the cause is", cause)
	}
}

func TestStopWaitsForHandlers(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go stop"}, Grace: patience})
	open := make(chan struct{})
	worker.Handle("", func(ctx context.Context, _ *Job) (any, error) {
		<-open
		return nil, ctx.Err()
	})
	stop := start(t, worker)
	id := enqueue(t, pool, Spec{Queue: "go stop"})
	until(t, pool, "SELECT status = 'processing' FROM jobq.jobs WHERE id = $1", id)
	later := enqueue(t, pool, Spec{Queue: "go stop"})
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for worker.stopping.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	close(open)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	until(t, pool, "SELECT status = 'completed' AND attempts = 1 FROM jobq.jobs WHERE id = $1", id)
	until(t, pool, "SELECT status = 'pending' AND attempts = 0 FROM jobq.jobs WHERE id = $1", later)
	if err := worker.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already run") {
		t.Error("a second run is not rejected:", err)
	}
}

func TestGraceEnds(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go grace"}, Slots: 2, Grace: -1})
	open := make(chan struct{})
	defer close(open)
	worker.Handle("deaf", func(context.Context, *Job) (any, error) {
		<-open
		return nil, nil
	})
	worker.Handle("hears", func(ctx context.Context, job *Job) (any, error) {
		<-ctx.Done()
		return nil, job.Reason()
	})
	stop := start(t, worker)
	deaf, hears := enqueue(t, pool, Spec{Queue: "go grace", Kind: "deaf"}), enqueue(t, pool, Spec{Queue: "go grace", Kind: "hears"})
	until(t, pool, "SELECT count(*) = 2 FROM jobq.jobs WHERE id IN ($1, $2) AND status = 'processing'", deaf, hears)
	if err := stop(); err != nil {
		t.Error(err)
	}
	until(t, pool, "SELECT count(*) = 2 FROM jobq.jobs WHERE id IN ($1, $2) AND status = 'pending' AND attempts = 0", deaf, hears)
}

func TestServeStopsAllWorkersWhenOneFails(t *testing.T) {
	good := newWorker(t, Options{Queues: []string{"go serve"}})
	bad, err := NewWorker("dbname=no_such_database", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(good, bad) }()
	select {
	case err := <-ended:
		if sqlState(err) != "3D000" || !strings.Contains(err.Error(), bad.options.WorkerID) {
			t.Error(err)
		}
	case <-time.After(2 * patience):
		t.Fatal("Serve does not return")
	}
}

func TestOneRejectedResultFailsOneJob(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go together"}, Slots: 20})
	waiting := atomic.Int32{}
	all := make(chan struct{})
	Handle(worker, Kind[int]{Name: "number"}, func(_ context.Context, _ *Job, number int) (string, error) {
		if waiting.Add(1) == 20 {
			close(all)
		}
		<-all // so that the results are ready at the same time
		if number == 7 {
			return "\x00", nil
		}
		return fmt.Sprint(number), nil
	})
	specs := make([]Spec, 20)
	for number := range specs {
		specs[number] = Spec{Queue: "go together", Kind: "number", Payload: number, MaxAttempts: 1}
	}
	if _, err := EnqueueMany(t.Context(), pool, specs); err != nil {
		t.Fatal(err)
	}
	start(t, worker)
	until(t, pool, "SELECT count(*) = 19 FROM jobq.jobs WHERE queue = 'go together' AND status = 'completed' AND result = to_jsonb(payload::text)")
	until(t, pool, `SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'go together' AND status = 'failed' AND payload = '7'
		AND error LIKE 'the result was refused: %'`)
}

// forgetful loses the server's answer to the first message that contains a text.
type forgetful struct {
	net.Conn
	text string
	lost *atomic.Bool
	next bool
}

func (f *forgetful) Write(message []byte) (int, error) {
	if strings.Contains(string(message), f.text) && !f.lost.Swap(true) {
		f.next = true
	}
	return f.Conn.Write(message)
}

func (f *forgetful) Read(answer []byte) (int, error) {
	number, err := f.Conn.Read(answer)
	if f.next && err == nil {
		f.Conn.Close()
		return 0, io.EOF
	}
	return number, err
}

func TestLostAnswersLoseNothing(t *testing.T) {
	pool := newPool(t)
	for queue, text := range map[string]string{"go unheard": "commit", "go unread": "SELECT jobq_complete("} {
		lost := &atomic.Bool{}
		log, said := newLog()
		worker := newWorker(t, Options{Queues: []string{queue}, Logger: log, BeforeConnect: func(_ context.Context, config *pgx.ConnConfig) error {
			dial := config.DialFunc
			config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return &forgetful{Conn: conn, text: text, lost: lost}, err
			}
			return nil
		}})
		worker.Handle("", func(ctx context.Context, job *Job) (any, error) {
			if text != "commit" {
				return 1, nil
			}
			return nil, job.Completing(ctx, func(pgx.Tx) (any, error) { return 1, nil })
		})
		stop := start(t, worker)
		id := enqueue(t, pool, Spec{Queue: queue})
		until(t, pool, "SELECT status = 'completed' AND attempts = 1 AND result = '1' FROM jobq.jobs WHERE id = $1", id)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !lost.Load() || said.contains("has failed") || said.contains("is lost") {
			t.Errorf("%s: lost: %v, log: %s", queue, lost.Load(), said.text.String())
		}
	}
}

func TestWorkersAreShown(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go shown", "go too"}, Slots: 3})
	worker.Handle("kind", func(context.Context, *Job) (any, error) { return nil, nil })
	stop := start(t, worker)
	until(t, pool, "SELECT count(*) = 1 FROM jobq.workers WHERE worker_id = $1 AND slots = 3 AND client = $2", worker.options.WorkerID, "jobq-go "+Version)
	until(t, pool, "SELECT count(*) = 3 FROM pg_stat_activity WHERE application_name = left('jobq go shown,go too ' || $1, 63)", worker.options.WorkerID)
	if err := stop(); err != nil {
		t.Error(err)
	}
	until(t, pool, "SELECT count(*) = 0 FROM jobq.workers WHERE worker_id = $1", worker.options.WorkerID)
	until(t, pool, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'jobq go shown%'")
}

func TestPollingWorkersFindJobs(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go polls"}, PollInterval: 100 * time.Millisecond})
	worker.Handle("", func(_ context.Context, job *Job) (any, error) { return job.Payload, nil })
	start(t, worker)
	for number := range 3 {
		id := enqueue(t, pool, Spec{Queue: "go polls", Payload: number})
		until(t, pool, "SELECT status = 'completed' AND result = payload FROM jobq.jobs WHERE id = $1", id)
	}
	until(t, pool, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'jobq go polls%' AND query LIKE 'CALL%'")
}

func TestVersionsAndCapabilitiesAreClaimed(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go able"}, Versions: []int32{2}, Capabilities: []string{"gpu"}})
	worker.Handle("", func(_ context.Context, job *Job) (any, error) { return job.Version, nil })
	start(t, worker)
	specs := []Spec{{Queue: "go able", Version: 1}, {Queue: "go able", Version: 2, Requires: []string{"tpu"}},
		{Queue: "go able", Version: 2, Requires: []string{"gpu"}}}
	jobs, err := EnqueueMany(t.Context(), pool, specs)
	if err != nil {
		t.Fatal(err)
	}
	until(t, pool, "SELECT status = 'completed' AND result = '2' FROM jobq.jobs WHERE id = $1", jobs[2].ID)
	until(t, pool, "SELECT count(*) = 2 FROM jobq.jobs WHERE id IN ($1, $2) AND status = 'pending'", jobs[0].ID, jobs[1].ID)
}

func TestHandlersAreRegisteredOnce(t *testing.T) {
	worker := newWorker(t, Options{})
	handler := func(context.Context, *Job) (any, error) { return nil, nil }
	worker.Handle("twice", handler)
	for kind, handler := range map[string]HandlerFunc{"twice": handler, "none": nil} {
		func() {
			defer func() {
				if value := recover(); value == nil || !strings.Contains(fmt.Sprint(value), kind) {
					t.Errorf("kind %q: %v", kind, value)
				}
			}()
			worker.Handle(kind, handler)
		}()
	}
}

func TestOnlyALostLeaseReplacesTheReason(t *testing.T) {
	job := &Job{cancel: func(error) {}}
	job.stop(ErrStopping)
	job.stop(ErrCanceled)
	if !errors.Is(job.Reason(), ErrStopping) {
		t.Error("the reason changes to", job.Reason())
	}
	job.stop(ErrLost)
	if job.Reason() != ErrLost {
		t.Error("a lost lease does not replace the reason", job.Reason())
	}
}
