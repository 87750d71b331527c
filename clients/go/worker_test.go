package main

import (
	"os"
	"testing"
	"time"
)

// A worker that cannot connect ends with an error; the others must not go on without it. Wants a server with jobq that PGHOST and the
// like name.
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
		t.Fatal("RunAll goes on")
	}
}
