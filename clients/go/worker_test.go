package main

import (
	"os"
	"testing"
	"time"
)

// If a worker cannot connect, it ends with an error, and the others must not continue without it. Needs a server with jobq,
// selected by PGHOST and so on.
func TestRunAllStopsAllWorkersWhenOneFails(t *testing.T) {
	os.Setenv("JOBQ_GRACE", "0")
	good, err := WorkerFromEnvironment(handlers)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := WorkerFromEnvironment(handlers)
	if err != nil {
		t.Fatal(err)
	}
	bad.ConnString = "dbname=no_such_database"
	ended := make(chan error, 1)
	go func() { ended <- RunAll(good, bad) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("RunAll returns no error")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("RunAll does not return")
	}
}
