package jobq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Serve runs workers until SIGTERM or SIGINT, for a process that only runs workers. A second signal ends the grace period. If a worker
// ends with an error, the others stop as after a signal, and Serve returns the error. It notifies systemd. The process should end when
// Serve returns, because handlers that did not stop still run.
func Serve(workers ...*Worker) error {
	if len(workers) == 0 {
		return errors.New("Serve needs at least one worker")
	}
	stop, stopAll := context.WithCancel(context.Background())
	defer stopAll()
	hurry, hurryAll := context.WithCancel(context.Background())
	defer hurryAll()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	go func() {
		for _, then := range []func(){stopAll, hurryAll} {
			select {
			case <-signals:
				then()
			case <-hurry.Done(): // Serve has returned
			}
		}
	}()
	context.AfterFunc(stop, func() { notifySystemd("STOPPING=1") })
	var starting atomic.Int32
	starting.Store(int32(len(workers)))
	ready := func() {
		if starting.Add(-1) == 0 {
			notifySystemd("READY=1")
			process.watched.Store(true)
		}
	}
	ended := make(chan error, len(workers))
	for _, worker := range workers {
		go func() {
			err := worker.run(stop, hurry, ready)
			if err != nil {
				err = fmt.Errorf("worker %s: %w", worker.options.WorkerID, err)
			}
			ended <- err
		}()
	}
	var failures []error
	for range workers {
		if err := <-ended; err != nil {
			failures = append(failures, err)
			stopAll()
		}
	}
	return errors.Join(failures...)
}
