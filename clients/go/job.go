package jobq

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Job is the job that a handler receives. The fields are the columns that the claim returned.
type Job struct {
	ID          int64
	Lease       int64
	Queue       string
	Kind        string
	Payload     json.RawMessage
	Attempt     int
	MaxAttempts int
	Priority    int
	Version     int
	RunAt       time.Time
	CreatedAt   time.Time
	Progress    json.RawMessage // the last progress that an earlier attempt reported, or nil
	Metadata    json.RawMessage // nil if the job has no metadata

	heartbeatSeconds float64
	worker           *Worker
	cancel           context.CancelCauseFunc

	mutex     sync.Mutex // protects the following fields
	reason    error
	progress  *string // not sent yet
	lines     []line  // not sent yet
	beatAt    time.Time
	reporting bool
	// committing: an open transaction may have locked the row of the job, so a heartbeat would wait for its end.
	committing bool
	done       bool // the handler's own transaction has completed the job
}

// Reason returns why the handler should stop: ErrCanceled, ErrLost, ErrStopping, or nil. ErrLost replaces the other reasons.
func (j *Job) Reason() error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.reason
}

func (j *Job) stop(reason error) {
	j.mutex.Lock()
	if j.reason == nil || reason == ErrLost {
		j.reason = reason
	}
	j.mutex.Unlock()
	j.cancel(reason)
}

// SetProgress stores the progress of the job, which the worker sends with a heartbeat within about a second.
func (j *Job) SetProgress(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	progress := string(text)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.progress = &progress
	return nil
}

// isStop returns whether the handler stopped because its context was canceled.
func isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrCanceled) || errors.Is(err, ErrStopping)
}
