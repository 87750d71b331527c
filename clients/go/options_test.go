package jobq

import (
	"errors"
	"testing"
	"time"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, wrong := range map[string]Options{
		"slots":              {Slots: 1001},
		"batch":              {Batch: -1},
		"worker_id":          {WorkerID: "backend:1"},
		"heartbeat_timeout":  {HeartbeatTimeout: time.Millisecond},
		"heartbeat_interval": {HeartbeatInterval: -1},
		"poll_interval":      {PollInterval: time.Microsecond},
		"wait_timeout":       {WaitTimeout: 366 * 24 * time.Hour},
		"grace":              {Grace: 366 * 24 * time.Hour},
		"queues":             {Queues: []string{""}},
		"liveness_port":      {LivenessPort: "http"},
	} {
		_, err := NewWorker("", wrong)
		var problem *OptionError
		if !errors.As(err, &problem) || problem.Option != name {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := NewWorker("no_such_option", Options{}); err == nil {
		t.Error("a connection string that cannot be parsed is accepted")
	}
}

func TestOptionsOfEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"QUEUE": "a,b", "SLOTS": "4", "BATCH": "2", "WORKER_ID": "w", "HEARTBEAT_TIMEOUT": "1.5", "HEARTBEAT_INTERVAL": "0.2", "WAIT_TIMEOUT": "3",
		"POLL_INTERVAL": "0.5", "GRACE": "0", "LIVENESS_FILE": "f", "LIVENESS_PORT": "localhost:80",
	} {
		t.Setenv("JOBQ_"+name, value)
	}
	got, err := OptionsFromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	got = got.withDefaults()
	if len(got.Queues) != 2 || got.Queues[1] != "b" || got.Slots != 4 || got.Batch != 2 || got.WorkerID != "w" || got.HeartbeatTimeout != 1500*time.Millisecond ||
		got.HeartbeatInterval != 200*time.Millisecond || got.WaitTimeout != 3*time.Second || got.PollInterval != 500*time.Millisecond ||
		got.Grace != 0 || got.LivenessFile != "f" || got.LivenessPort != "localhost:80" {
		t.Errorf("%+v", got)
	}
	for option, variable := range map[string][2]string{
		"slots": {"JOBQ_SLOTS", "many"}, "batch": {"JOBQ_BATCH", "0"}, "grace": {"JOBQ_GRACE", "soon"}, "poll_interval": {"JOBQ_POLL_INTERVAL", "0"},
	} {
		t.Run(option, func(t *testing.T) {
			t.Setenv(variable[0], variable[1])
			_, err := OptionsFromEnvironment()
			var problem *OptionError
			if !errors.As(err, &problem) || problem.Option != option {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
