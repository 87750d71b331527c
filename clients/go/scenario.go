// The handlers for the scenarios: see clients/scenarios/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v4"
)

type payload struct {
	Message, Gate, Before, In string
	Error                     *string
	Times, Steps              int
	Delay, Seconds            float64
	RetryIn                   *float64 `json:"retry_in"`
	Names                     []string
}

func of(job *Job) (p payload) {
	if err := json.Unmarshal(job.Payload, &p); err != nil {
		log.Fatal(err)
	}
	return p
}

type object map[string]interface{}

// eye reads the database on a separate connection, which it opens again when it breaks.
type eye struct {
	job  *Job
	conn *pgx.Conn
}

func (e *eye) ask(statement string, values ...interface{}) (count int) {
	ctx := context.Background()
	for {
		var err error
		if e.conn == nil {
			e.conn, err = e.job.worker.connect(ctx)
		}
		if err == nil {
			err = e.conn.QueryRow(ctx, statement, values...).Scan(&count)
		}
		if err == nil {
			return count
		}
		if e.conn != nil {
			e.conn.Close(ctx)
			e.conn = nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (e *eye) tell(event string) {
	e.ask("INSERT INTO scenario.events VALUES ($1, $2, $3) RETURNING 1", e.job.ID, e.job.Attempt, event)
}

// await returns when the gate is open or the context is done.
func (e *eye) await(ctx context.Context, gate string) error {
	for gate != "" && e.ask("SELECT count(*)::int FROM scenario.gates WHERE name = $1", gate) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func effect(ctx context.Context, tx pgx.Tx, job *Job, name string) error {
	_, err := tx.Exec(ctx, "INSERT INTO scenario.effects VALUES ($1, $2, $3)", job.ID, job.Attempt, name)
	return err
}

func deaf(_ context.Context, job *Job) (interface{}, error) {
	e := &eye{job: job}
	e.tell("started")
	return object{"gate": of(job).Gate}, e.await(context.Background(), of(job).Gate)
}

func waits(ctx context.Context, job *Job) (interface{}, error) {
	e := &eye{job: job}
	e.tell("started")
	if err := e.await(ctx, of(job).Gate); err != nil {
		e.tell(job.Reason())
		return nil, err
	}
	return object{"gate": of(job).Gate}, nil
}

var handlers = map[string]Handler{
	"echo": func(_ context.Context, job *Job) (interface{}, error) { return job.Payload, nil },
	"fail": func(_ context.Context, job *Job) (interface{}, error) {
		if job.Attempt <= of(job).Times {
			return nil, errors.New(of(job).Message)
		}
		return object{"attempt": job.Attempt}, nil
	},
	"reject": func(_ context.Context, job *Job) (interface{}, error) {
		if seconds := of(job).RetryIn; seconds != nil {
			delay := time.Duration(*seconds * float64(time.Second))
			return nil, &Fail{Message: of(job).Message, RetryIn: &delay}
		}
		return nil, &Fail{Message: of(job).Message, Final: true}
	},
	"snooze": func(_ context.Context, job *Job) (interface{}, error) {
		if job.Progress != nil {
			return object{"snoozed": true}, nil
		}
		if err := job.SetProgress(object{"snoozed": true}); err != nil {
			return nil, err
		}
		return nil, &Snooze{Delay: time.Duration(of(job).Delay * float64(time.Second))}
	},
	"wait": waits,
	"deaf": deaf,
	"sleep": func(_ context.Context, job *Job) (interface{}, error) {
		(&eye{job: job}).tell("started")
		time.Sleep(time.Duration(of(job).Seconds * float64(time.Second)))
		return object{}, nil
	},
	"progress": func(ctx context.Context, job *Job) (interface{}, error) {
		e := &eye{job: job}
		e.tell("started")
		for step := 1; step <= of(job).Steps; step++ {
			if err := job.SetProgress(object{"step": step}); err != nil {
				return nil, err
			}
		}
		return object{"steps": of(job).Steps}, e.await(ctx, of(job).Gate)
	},
	"transfer": func(ctx context.Context, job *Job) (interface{}, error) {
		if _, err := deaf(ctx, job); err != nil {
			return nil, err
		}
		return nil, job.Completing(ctx, func(tx pgx.Tx) (interface{}, error) {
			if err := effect(ctx, tx, job, "transfer"); err != nil {
				return nil, err
			}
			if message := of(job).Error; message != nil && job.Attempt == 1 {
				return nil, errors.New(*message)
			}
			return object{"moved": true}, nil
		})
	},
	"steps": func(ctx context.Context, job *Job) (interface{}, error) {
		e := &eye{job: job}
		e.tell("started")
		results := []json.RawMessage{}
		for _, name := range of(job).Names {
			name := name
			if name == of(job).Before {
				if err := e.await(ctx, of(job).Gate); err != nil {
					return nil, err
				}
			}
			result, err := job.Step(ctx, name, func(tx pgx.Tx) (interface{}, error) {
				return object{"name": name}, effect(ctx, tx, job, name)
			})
			if err != nil {
				return nil, err
			}
			results = append(results, result)
		}
		return results, nil
	},
	"garbage": func(ctx context.Context, job *Job) (interface{}, error) {
		switch of(job).In {
		case "error":
			return nil, errors.New("bad \xff\x00 bytes")
		case "result":
			return "\x00", nil
		}
		if err := job.SetProgress("\x00"); err != nil {
			return nil, err
		}
		return waits(ctx, job)
	},
	"poison": func(_ context.Context, job *Job) (interface{}, error) {
		(&eye{job: job}).tell("started")
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	},
}

func main() {
	worker, err := WorkerFromEnvironment(handlers)
	if err == nil {
		err = worker.Run()
	}
	if err != nil {
		log.Fatal(err)
	}
}
