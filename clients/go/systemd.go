package jobq

import (
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifySystemd sends a state to systemd, if the unit expects states (sd_notify(3)).
func notifySystemd(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	// In the name of an abstract socket, Go writes "@" for the first byte, as systemd does.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		conn.SetDeadline(time.Now().Add(time.Second))
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		slog.Warn("could not send a state to systemd", "state", strings.TrimSpace(state), "error", err)
	}
}

// watchdogTime returns the time without a notification after which systemd kills this process, or 0.
func watchdogTime() time.Duration {
	if process := os.Getenv("WATCHDOG_PID"); process != "" && process != strconv.Itoa(os.Getpid()) {
		return 0
	}
	microseconds, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || microseconds < 0 {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
