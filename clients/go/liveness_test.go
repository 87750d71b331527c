package jobq

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// probe returns the status and the body of an answer to a liveness probe.
func probe(t *testing.T, address string) (int, string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + address)
		if err == nil {
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			return response.StatusCode, string(body)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestProbesFailWhenAWorkerIsStuck(t *testing.T) {
	address := freeAddress(t)
	worker := newWorker(t, Options{Queues: []string{"go alive"}, WorkerID: "go alive", LivenessPort: address})
	start(t, worker)
	if status, body := probe(t, address); status != http.StatusOK || body != "ok\n" {
		t.Error(status, body)
	}
	for end := time.Now().Add(patience); ; {
		// Soon, the worker waits in the server, so that its claims do not set their time again.
		worker.hand.claims.at.Store(int64(time.Since(processStart) - stuckAfter - time.Second))
		status, body := probe(t, address)
		if status == http.StatusServiceUnavailable && strings.Contains(body, "go alive: claims are stuck") {
			break
		}
		if time.Now().After(end) {
			t.Fatal(status, body)
		}
	}
	worker.hand.claims.at.Store(int64(time.Since(processStart) - stuckAfter - time.Second))
	worker.hand.stopping.Store(true)
	if status, _ := probe(t, address); status != http.StatusOK {
		t.Error("claims count while the worker stops:", status)
	}
}

func TestSignsOfLife(t *testing.T) {
	var hand hand
	if hand.stuck() != "" {
		t.Error("stuck before the start")
	}
	hand.beats.expect(-stuckAfter - time.Second)
	if hand.stuck() != "heartbeats" {
		t.Error("late heartbeats are not stuck")
	}
	hand.beats.never()
	hand.claims.expect(-stuckAfter + time.Minute)
	if hand.stuck() != "" {
		t.Error("stuck too early")
	}
}

func TestServeTellsSystemdAndTouchesTheFile(t *testing.T) {
	directory := t.TempDir()
	name := filepath.Join(directory, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "200000")
	file := filepath.Join(directory, "alive")
	worker := newWorker(t, Options{Queues: []string{"go systemd"}, LivenessFile: file})
	ended := make(chan error, 1)
	go func() { ended <- Serve(worker) }()
	next := func() string {
		text := make([]byte, 100)
		socket.SetReadDeadline(time.Now().Add(patience))
		number, err := socket.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:number])
	}
	if state := next(); state != "READY=1" {
		t.Error("the first state is", state)
	}
	for range 2 {
		if state := next(); state != "WATCHDOG=1" {
			t.Error("the next state is", state)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	for state := next(); state != "STOPPING=1"; state = next() {
		if state != "WATCHDOG=1" {
			t.Error("the state is", state)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLivenessOptionsThatCannotBeUsed(t *testing.T) {
	worker := newWorker(t, Options{LivenessFile: "/no/such/directory/file"})
	if err := worker.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "liveness_file") {
		t.Error(err)
	}
}
