package jobq

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// touchesEvery is the time between two touches of the file for liveness probes.
	touchesEvery = 2 * time.Second
	// stuckAfter is longer than a worker needs to notice that the server has vanished.
	stuckAfter = 120 * time.Second
)

// sign is when a goroutine will show its next sign of life if the server answers at once, in nanoseconds since the start of the process;
// 0 means never. It is read without a lock, because a goroutine may be stuck while it holds one.
type sign struct{ at atomic.Int64 }

var processStart = time.Now()

func (s *sign) expect(in time.Duration) { s.at.Store(int64(time.Since(processStart)+in) + 1) }
func (s *sign) never()                  { s.at.Store(0) }

func (s *sign) isStuck() bool {
	at := s.at.Load()
	return at != 0 && time.Since(processStart)-time.Duration(at) > stuckAfter
}

// hand tells whether the goroutines of a worker are stuck.
type hand struct {
	claims, beats sign
	stopping      atomic.Bool
}

// stuck returns what is stuck, or "".
func (h *hand) stuck() string {
	switch {
	case h.beats.isStuck():
		return "heartbeats"
	case h.claims.isStuck() && !h.stopping.Load():
		return "claims"
	}
	return ""
}

// liveness tells the probes of Kubernetes and systemd whether the workers of this process are alive. A probe restarts the whole process,
// so the files, the ports, and the watchdog of systemd cover all of its workers.
type liveness struct {
	mutex   sync.Mutex
	workers map[*Worker]bool
	files   map[string]bool
	ports   map[string]*http.Server
	ended   chan struct{}
	watched atomic.Bool // systemd has been told that the workers are ready
}

var process = liveness{workers: map[*Worker]bool{}, files: map[string]bool{}, ports: map[string]*http.Server{}}

// watchLiveness covers the worker until the returned function is called. The error is an *OptionError if the file cannot be touched or the
// port cannot be opened.
func (w *Worker) watchLiveness() (unwatch func(), err error) {
	address, err := w.options.livenessAddress()
	if err != nil {
		return nil, err
	}
	if file := w.options.LivenessFile; file != "" {
		if err := touch(file); err != nil {
			return nil, &OptionError{"liveness_file", "cannot be used: " + err.Error()}
		}
	}
	process.mutex.Lock()
	defer process.mutex.Unlock()
	if address != "" && process.ports[address] == nil {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, &OptionError{"liveness_port", "cannot be used: " + err.Error()}
		}
		server := &http.Server{Handler: http.HandlerFunc(answerProbe), ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
		process.ports[address] = server
		go server.Serve(listener)
	}
	if file := w.options.LivenessFile; file != "" {
		process.files[file] = true
	}
	if len(process.workers) == 0 {
		process.ended = make(chan struct{})
		go process.tellAll(process.ended, w.log)
	}
	process.workers[w] = true
	return func() { process.leave(w) }, nil
}

func (l *liveness) leave(w *Worker) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.workers, w)
	if len(l.workers) > 0 {
		return
	}
	close(l.ended)
	for _, server := range l.ports {
		server.Close()
	}
	clear(l.ports)
	clear(l.files)
	l.watched.Store(false)
}

// reason returns why the process should be restarted, or "" if it is alive.
func (l *liveness) reason() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for w := range l.workers {
		if stuck := w.hand.stuck(); stuck != "" {
			return fmt.Sprintf("%s: %s are stuck", w.options.WorkerID, stuck)
		}
	}
	return ""
}

func answerProbe(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if reason := process.reason(); reason != "" {
		response.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(response, reason)
		return
	}
	fmt.Fprintln(response, "ok")
}

// tellAll touches the files and tells systemd until the last worker has ended.
func (l *liveness) tellAll(ended chan struct{}, log *slog.Logger) {
	said := ""
	for {
		reason := l.reason()
		if reason == "" {
			reason = l.tell()
		}
		if reason != "" && reason != said {
			log.Error("liveness probes fail", "reason", reason)
		}
		said = reason
		pause := touchesEvery
		if watchdog := watchdogTime(); watchdog > 0 {
			pause = min(pause, watchdog/2)
		}
		select {
		case <-time.After(pause):
		case <-ended:
			return
		}
	}
}

// tell shows that the process is alive, and returns why this was not possible, or "".
func (l *liveness) tell() string {
	if l.watched.Load() && watchdogTime() > 0 {
		notifySystemd("WATCHDOG=1")
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for file := range l.files {
		if err := touch(file); err != nil {
			return err.Error()
		}
	}
	return ""
}

func touch(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(path, now, now)
}
