package jobq

import (
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The errors that tell a handler why it should stop. They are the cause of its context (context.Cause) and the result of Job.Reason.
var (
	// ErrCanceled means that the job was canceled.
	ErrCanceled = errors.New("the job was canceled")
	// ErrLost means that the lease of the job is lost, so the worker no longer holds the job.
	ErrLost = errors.New("the lease of the job is lost")
	// ErrStopping means that the worker stops and the grace period is over.
	ErrStopping = errors.New("the worker is stopping")
)

// The errors that a handler returns to give its job back.
var (
	// ErrRelease gives the job back, to run again at once. The attempt is not counted.
	ErrRelease = errors.New("released")
	// ErrWaiting is the error of Sleep, WaitFor, and WaitForJobs if the job has to wait. The job has been given back, so the handler must
	// return this error, unchanged or wrapped.
	ErrWaiting = errors.New("the job was given back and will run again")
	// ErrTimeout is the error of WaitFor and WaitForJobs after their timeout.
	ErrTimeout = errors.New("the timeout is over")
)

// Fail is a failure that decides about the retry. A handler that returns any other error is retried after the backoff of the queue.
type Fail struct {
	Message string
	// RetryIn is the time until the next attempt. The zero value means the backoff of the queue, and a negative value means now.
	RetryIn time.Duration
	// Final makes the job fail permanently.
	Final bool
	// Err is the cause, which errors.Is and errors.As find.
	Err error
}

func (f *Fail) Error() string {
	switch {
	case f.Err == nil:
		return f.Message
	case f.Message == "":
		return f.Err.Error()
	}
	return f.Message + ": " + f.Err.Error()
}

func (f *Fail) Unwrap() error { return f.Err }

// Snooze is the error with which a handler gives its job back, to run again after the delay. The attempt is not counted.
type Snooze struct{ Delay time.Duration }

func (s *Snooze) Error() string { return "snoozed for " + s.Delay.String() }

// panicError is the error of a handler that panicked.
type panicError struct {
	text  string
	stack string
}

func (p *panicError) Error() string { return "panic: " + p.text }

// sqlState returns the SQLSTATE of the server's error, or "".
func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// describe returns the text of an error, with the hint of the server.
func describe(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Hint != "" {
		return err.Error() + " HINT: " + refused.Hint
	}
	return err.Error()
}

func isCollision(state string) bool { return state == "40001" || state == "40P01" }

// clean returns the text as the server can store it.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "\\0")
}

// ascii replaces the characters that the encoding of the database may lack.
func ascii(text string) string {
	return strings.Map(func(char rune) rune {
		if char > 127 {
			return '?'
		}
		return char
	}, text)
}

// isUnstorable returns whether the encoding of the database lacks a character of a text.
func isUnstorable(err error) bool {
	state := sqlState(err)
	return state == "22P05" || state == "22021"
}
