// The worker of the scenarios: see clients/scenarios/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"jobq"
)

type payload struct {
	Message, Gate, Before, In string
	Error                     *string
	Times, Steps              int
	Delay, Seconds            float64
	RetryIn                   *float64 `json:"retry_in"`
	Names                     []string
}

type object map[string]any

func lasting(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// eye reads the database on a separate connection, which it opens again when it breaks.
type eye struct {
	job  *jobq.Job
	conn *pgx.Conn
}

func connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, config)
}

func (e *eye) ask(statement string, values ...any) (count int) {
	ctx := context.Background()
	for {
		var err error
		if e.conn == nil {
			e.conn, err = connect(ctx)
		}
		if err == nil {
			err = e.conn.QueryRow(ctx, statement, values...).Scan(&count)
		}
		if err == nil {
			return count
		}
		e.close()
		time.Sleep(200 * time.Millisecond)
	}
}

func (e *eye) close() {
	if e.conn != nil {
		e.conn.Close(context.Background())
		e.conn = nil
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

func effect(ctx context.Context, tx pgx.Tx, job *jobq.Job, name string) error {
	_, err := tx.Exec(ctx, "INSERT INTO scenario.effects VALUES ($1, $2, $3)", job.ID, job.Attempt, name)
	return err
}

func deaf(_ context.Context, job *jobq.Job, given payload) (object, error) {
	e := &eye{job: job}
	defer e.close()
	e.tell("started")
	return object{"gate": given.Gate}, e.await(context.Background(), given.Gate)
}

func waits(ctx context.Context, job *jobq.Job, given payload) (object, error) {
	e := &eye{job: job}
	defer e.close()
	e.tell("started")
	if err := e.await(ctx, given.Gate); err != nil {
		e.tell(map[error]string{jobq.ErrCanceled: "cancel", jobq.ErrLost: "lost", jobq.ErrStopping: "stopping"}[job.Reason()])
		return nil, err
	}
	return object{"gate": given.Gate}, nil
}

func fail(_ context.Context, job *jobq.Job, given payload) (object, error) {
	if job.Attempt <= given.Times {
		return nil, errors.New(given.Message)
	}
	return object{"attempt": job.Attempt}, nil
}

func reject(_ context.Context, _ *jobq.Job, given payload) (object, error) {
	if given.RetryIn != nil {
		return nil, &jobq.Fail{Message: given.Message, RetryIn: lasting(*given.RetryIn)}
	}
	return nil, &jobq.Fail{Message: given.Message, Final: true}
}

func snooze(_ context.Context, job *jobq.Job, given payload) (object, error) {
	if job.Progress != nil {
		return object{"snoozed": true}, nil
	}
	if err := job.SetProgress(object{"snoozed": true}); err != nil {
		return nil, err
	}
	return nil, &jobq.Snooze{Delay: lasting(given.Delay)}
}

func sleep(_ context.Context, job *jobq.Job, given payload) (object, error) {
	e := &eye{job: job}
	e.tell("started")
	e.close()
	time.Sleep(lasting(given.Seconds))
	return object{}, nil
}

func progress(ctx context.Context, job *jobq.Job, given payload) (object, error) {
	e := &eye{job: job}
	defer e.close()
	e.tell("started")
	for step := 1; step <= given.Steps; step++ {
		if err := job.SetProgress(object{"step": step}); err != nil {
			return nil, err
		}
	}
	return object{"steps": given.Steps}, e.await(ctx, given.Gate)
}

func transfer(ctx context.Context, job *jobq.Job, given payload) (object, error) {
	if _, err := deaf(ctx, job, given); err != nil {
		return nil, err
	}
	return nil, job.Completing(ctx, func(tx pgx.Tx) (any, error) {
		if err := effect(ctx, tx, job, "transfer"); err != nil {
			return nil, err
		}
		if given.Error != nil && job.Attempt == 1 {
			return nil, errors.New(*given.Error)
		}
		return object{"moved": true}, nil
	})
}

func steps(ctx context.Context, job *jobq.Job, given payload) ([]object, error) {
	e := &eye{job: job}
	defer e.close()
	e.tell("started")
	results := []object{}
	for _, name := range given.Names {
		if name == given.Before {
			if err := e.await(ctx, given.Gate); err != nil {
				return nil, err
			}
		}
		result, err := jobq.Step(ctx, job, name, func(tx pgx.Tx) (object, error) {
			return object{"name": name}, effect(ctx, tx, job, name)
		})
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

func garbage(ctx context.Context, job *jobq.Job, given payload) (any, error) {
	switch given.In {
	case "error":
		return nil, errors.New("bad \xff\x00 bytes")
	case "result":
		return "\x00", nil
	}
	if err := job.SetProgress("\x00"); err != nil {
		return nil, err
	}
	return waits(ctx, job, given)
}

func poison(_ context.Context, job *jobq.Job, _ payload) (any, error) {
	(&eye{job: job}).tell("started")
	return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func handle[R any](worker *jobq.Worker, name string, handler func(context.Context, *jobq.Job, payload) (R, error)) {
	jobq.Handle(worker, jobq.Kind[payload]{Name: name}, handler)
}

func run() error {
	options, err := jobq.OptionsFromEnvironment()
	if err != nil {
		return err
	}
	worker, err := jobq.NewWorker("", options)
	if err != nil {
		return err
	}
	jobq.Handle(worker, jobq.Kind[json.RawMessage]{Name: "echo"}, func(_ context.Context, _ *jobq.Job, given json.RawMessage) (json.RawMessage, error) {
		return given, nil
	})
	handle(worker, "fail", fail)
	handle(worker, "reject", reject)
	handle(worker, "snooze", snooze)
	handle(worker, "wait", waits)
	handle(worker, "deaf", deaf)
	handle(worker, "sleep", sleep)
	handle(worker, "progress", progress)
	handle(worker, "transfer", transfer)
	handle(worker, "steps", steps)
	handle(worker, "garbage", garbage)
	handle(worker, "poison", poison)
	return jobq.Serve(worker)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
