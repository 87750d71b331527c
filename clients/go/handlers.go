package jobq

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
)

// HandlerFunc handles the jobs of a kind. Its result is stored as JSON, or as NULL if it is nil. It should return when ctx is done;
// context.Cause(ctx) is then ErrCanceled, ErrLost, or ErrStopping.
type HandlerFunc func(ctx context.Context, job *Job) (any, error)

// Kind is a kind of jobs whose payload has the type P. The code that enqueues jobs and the handler share it, so that the compiler checks
// that they agree.
type Kind[P any] struct {
	// Name is the name of the kind, which is "" for jobs without a kind.
	Name string
	// Queue is the queue in which Enqueue puts the jobs. The default is "default".
	Queue string
}

// Handle registers the handler of a kind whose payload has a type. If the payload of a job is not a P, the attempt fails, and the job is
// retried, because a worker of another version may accept it.
func Handle[P, R any](worker *Worker, kind Kind[P], handler func(ctx context.Context, job *Job, payload P) (R, error)) {
	worker.Handle(kind.Name, func(ctx context.Context, job *Job) (any, error) {
		var payload P
		if err := json.Unmarshal(job.Payload, &payload); err != nil {
			return nil, &Fail{Message: fmt.Sprintf("the payload of a job of kind %q is not a %T", kind.Name, payload), Err: err}
		}
		return handler(ctx, job, payload)
	})
}

// Handle registers the handler of a kind. The kind "" stands for jobs without a kind. Handle panics if the kind already has a handler.
func (w *Worker) Handle(kind string, handler HandlerFunc) {
	if handler == nil {
		panic(fmt.Sprintf("jobq: the handler of kind %q is nil", kind))
	}
	if _, given := w.handlers[kind]; given {
		panic(fmt.Sprintf("jobq: kind %q already has a handler", kind))
	}
	w.handlers[kind] = handler
}

// call calls the handler of a job, and returns its result as JSON, or nil for NULL. A panic becomes an error.
func (w *Worker) call(ctx context.Context, job *Job) (result *string, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = nil, &panicError{fmt.Sprint(value), string(debug.Stack())}
		}
	}()
	value, err := w.handlers[job.Kind](ctx, job)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil || string(text) == "null" {
		return nil, err
	}
	encoded := string(text)
	return &encoded, nil
}
