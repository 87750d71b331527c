package jobq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFailuresHaveDetails(t *testing.T) {
	pool := newPool(t)
	cause := errors.New("no answer\x00")
	hooked := atomic.Int32{}
	worker := newWorker(t, Options{
		Queues: []string{"go errors"}, Slots: 5,
		ErrorDetails: func(details map[string]any) map[string]any {
			if strings.Contains(details["stack"].(string), "secret") {
				return nil
			}
			details["host"] = "db1"
			return details
		},
		OnError: func(err error, job *Job) {
			if errors.Is(err, cause) && job.Kind == "wrapped" {
				hooked.Add(1)
			}
			panic("the hook is broken")
		},
	})
	failing := func(kind string, err error) int64 {
		worker.Handle(kind, func(context.Context, *Job) (any, error) { return nil, err })
		return enqueue(t, pool, Spec{Queue: "go errors", Kind: kind, MaxAttempts: 1})
	}
	wrapped := failing("wrapped", fmt.Errorf("mail: %w", cause))
	secret := failing("secret", errors.New("secret"))
	final := failing("final", &Fail{Message: "no address", Final: true, Err: cause})
	worker.Handle("panic", func(context.Context, *Job) (any, error) { panic("é") })
	panicked := enqueue(t, pool, Spec{Queue: "go errors", Kind: "panic", MaxAttempts: 1})
	worker.Handle("later", func(_ context.Context, job *Job) (any, error) { return nil, &Fail{Message: "busy", RetryIn: time.Hour} })
	later := enqueue(t, pool, Spec{Queue: "go errors", Kind: "later"})
	start(t, worker)

	until(t, pool, `SELECT status = 'failed' AND error = '*fmt.wrapError: mail: no answer\0' FROM jobq.jobs WHERE id = $1`, wrapped)
	until(t, pool, `SELECT details->>'class' = '*fmt.wrapError' AND details->>'host' = 'db1'
		AND details->>'stack' LIKE '%caused by: *errors.errorString: no answer%' FROM jobq.attempts WHERE job_id = $1`, wrapped)
	until(t, pool, "SELECT outcome = 'failed' AND details IS NULL FROM jobq.attempts WHERE job_id = $1", secret)
	until(t, pool, `SELECT status = 'failed' AND error = 'no address: no answer\0' FROM jobq.jobs WHERE id = $1`, final)
	until(t, pool, "SELECT status = 'failed' AND error = 'panic: é' FROM jobq.jobs WHERE id = $1", panicked)
	until(t, pool, "SELECT details->>'stack' LIKE '%errors_test.go%' FROM jobq.attempts WHERE job_id = $1", panicked)
	until(t, pool, "SELECT status = 'scheduled' AND run_at > now() + interval '50 min' AND attempts = 1 FROM jobq.jobs WHERE id = $1", later)
	if hooked.Load() != 1 {
		t.Error("OnError was called for the job", hooked.Load(), "times")
	}
}

func TestGivenBackAttemptsAreNotCounted(t *testing.T) {
	pool := newPool(t)
	worker := newWorker(t, Options{Queues: []string{"go back"}, Slots: 2})
	releases := atomic.Int32{}
	worker.Handle("release", func(_ context.Context, job *Job) (any, error) {
		if releases.Add(1) < 3 {
			return nil, fmt.Errorf("not here: %w", ErrRelease)
		}
		return job.Attempt, nil
	})
	worker.Handle("snooze", func(_ context.Context, job *Job) (any, error) {
		return nil, &Snooze{Delay: time.Hour}
	})
	start(t, worker)
	released, snoozed := enqueue(t, pool, Spec{Queue: "go back", Kind: "release"}), enqueue(t, pool, Spec{Queue: "go back", Kind: "snooze"})
	until(t, pool, "SELECT status = 'completed' AND attempts = 1 AND result = '1' FROM jobq.jobs WHERE id = $1", released)
	until(t, pool, "SELECT status = 'scheduled' AND attempts = 0 FROM jobq.jobs WHERE id = $1", snoozed)
}

func TestDetailsAreBounded(t *testing.T) {
	for _, char := range []string{"a", "é", "\x01", "<"} {
		text, err := bounded(map[string]any{"class": strings.Repeat(char, 100), "stack": strings.Repeat(char, 100000), "code": 7})
		if err != nil || len(text) > mostDetails || len(text) < 1000 || !strings.Contains(text, "characters left out") || !strings.Contains(text, `"code":7`) {
			t.Errorf("%q: %d bytes, %v", char, len(text), err)
		}
	}
	if _, err := bounded(map[string]any{"list": make([]int, 100000)}); err == nil {
		t.Error("details that are too long are accepted")
	}
}

func TestManyLinesAreCounted(t *testing.T) {
	job := &Job{}
	for range mostLines + 10 {
		job.Log(Debug, "line")
	}
	if last := job.lines[mostLines]; len(job.lines) != mostLines+1 || last.level != Warning || !strings.HasPrefix(last.text, "10 lines") {
		t.Error(len(job.lines), last)
	}
}
