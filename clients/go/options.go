package jobq

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	longestOption  = 365 * 24 * time.Hour
	shortestOption = 10 * time.Millisecond
	mostSlots      = 1000
)

// Options are the options of a worker. The zero value of each field means its default.
type Options struct {
	// Queues are the queues that the worker serves. They share its slots. The default is the queue "default".
	Queues []string
	// Slots is the maximum number of handlers that run at the same time, 1 to 1000. The default is 1.
	Slots int
	// Batch is the maximum number of jobs per claim, 1 to 1000. The default is 1000. A claim never takes more jobs than there are free slots.
	Batch int
	// Versions are the job versions that the worker accepts. The default is any version.
	Versions []int32
	// Capabilities are the capabilities of the worker.
	Capabilities []string
	// WorkerID identifies this process to the server. It must be unique and 1 to 255 bytes long, and must not begin with "backend:". The
	// default is HOST-PID-RANDOM.
	WorkerID string
	// HeartbeatTimeout is how long a lease lasts without a heartbeat, at least 10 ms. By default, the job or its queue decides.
	HeartbeatTimeout time.Duration
	// HeartbeatInterval is the maximum time between two heartbeats, at least 10 ms. The worker sends heartbeats more often if a lease
	// requires it.
	HeartbeatInterval time.Duration
	// WaitTimeout is the timeout of one call to jobq_wait_any. The default is 30 s; a negative value means 0.
	WaitTimeout time.Duration
	// PollInterval makes the worker poll instead of waiting in the server, with pauses up to this value, which is at least 10 ms.
	PollInterval time.Duration
	// Grace is how long handlers can continue when the worker stops. The default is 25 s; a negative value means 0.
	Grace time.Duration
	// Logger receives the log of the worker. The default is slog.Default().
	Logger *slog.Logger
	// BeforeConnect can change the configuration of each connection before it is opened, for example its password or its TLS settings.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	// Pool is the pool that Step, Completing, and the methods that wait use. By default, the worker opens a pool with at most Slots
	// connections.
	Pool *pgxpool.Pool
	// NoErrorDetails makes the worker send failure reports without the type of the error and its causes.
	NoErrorDetails bool
	// ErrorDetails can change the details of an error before they are sent. It receives the keys "class" and "stack". If it returns nil,
	// the report has no details.
	ErrorDetails func(details map[string]any) map[string]any
	// OnError is called with the error of each failed attempt before the attempt is reported.
	OnError func(err error, job *Job)
	// LivenessFile is a file that the worker touches every 2 seconds while it is alive.
	LivenessFile string
	// LivenessPort is a port, or HOST:PORT, at which the worker answers the HTTP requests of liveness probes.
	LivenessPort string
}

// OptionError is the error of an invalid option.
type OptionError struct {
	Option  string // as in the environment variable, for example "slots" for JOBQ_SLOTS
	Problem string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %q %s", e.Option, e.Problem)
}

// OptionsFromEnvironment returns the options in the environment variables JOBQ_QUEUE (one or more names, separated by commas),
// JOBQ_SLOTS, JOBQ_BATCH, JOBQ_WORKER_ID, JOBQ_HEARTBEAT_TIMEOUT, JOBQ_HEARTBEAT_INTERVAL, JOBQ_WAIT_TIMEOUT, JOBQ_POLL_INTERVAL,
// JOBQ_GRACE, JOBQ_LIVENESS_FILE, and JOBQ_LIVENESS_PORT. Times are in seconds.
func OptionsFromEnvironment() (Options, error) {
	options := Options{
		WorkerID:     os.Getenv("JOBQ_WORKER_ID"),
		LivenessFile: os.Getenv("JOBQ_LIVENESS_FILE"),
		LivenessPort: os.Getenv("JOBQ_LIVENESS_PORT"),
	}
	if names := os.Getenv("JOBQ_QUEUE"); names != "" {
		options.Queues = strings.Split(names, ",")
	}
	for name, value := range map[string]*int{"slots": &options.Slots, "batch": &options.Batch} {
		text := os.Getenv("JOBQ_" + strings.ToUpper(name))
		if text == "" {
			continue
		}
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 || number > mostSlots { // 0 would mean the default
			return options, &OptionError{name, fmt.Sprintf("must be an integer from 1 to %d; JOBQ_%s is %q", mostSlots, strings.ToUpper(name), text)}
		}
		*value = number
	}
	for name, value := range map[string]*time.Duration{
		"heartbeat_timeout": &options.HeartbeatTimeout, "heartbeat_interval": &options.HeartbeatInterval,
		"wait_timeout": &options.WaitTimeout, "poll_interval": &options.PollInterval, "grace": &options.Grace,
	} {
		if err := readSeconds(name, value); err != nil {
			return options, err
		}
	}
	return options, options.check()
}

// readSeconds reads a time in seconds from the environment variable of an option.
func readSeconds(option string, value *time.Duration) error {
	variable := "JOBQ_" + strings.ToUpper(option)
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	canBeZero := option == "grace" || option == "wait_timeout"
	least := 0.0
	if !canBeZero {
		least = shortestOption.Seconds()
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || !(number >= least && number <= longestOption.Seconds()) {
		return &OptionError{option, fmt.Sprintf("must be a number of seconds from %g to %.0f; %s is %q", least, longestOption.Seconds(), variable, text)}
	}
	*value = time.Duration(number * float64(time.Second))
	if *value == 0 {
		*value = -1 // the zero value of the field means the default
	}
	return nil
}

// check returns an *OptionError if an option is invalid.
func (o *Options) check() error {
	for _, queue := range o.Queues {
		if queue == "" {
			return &OptionError{"queues", "must not contain an empty name"}
		}
	}
	for name, value := range map[string]int{"slots": o.Slots, "batch": o.Batch} {
		if value < 0 || value > mostSlots {
			return &OptionError{name, fmt.Sprintf("must be from 1 to %d; it is %d", mostSlots, value)}
		}
	}
	if len(o.WorkerID) > 255 || strings.HasPrefix(o.WorkerID, "backend:") {
		return &OptionError{"worker_id", fmt.Sprintf("must be 1 to 255 bytes long, and must not begin with \"backend:\"; it is %q", o.WorkerID)}
	}
	for name, value := range map[string]time.Duration{
		"heartbeat_timeout": o.HeartbeatTimeout, "heartbeat_interval": o.HeartbeatInterval, "poll_interval": o.PollInterval,
	} {
		if value != 0 && (value < shortestOption || value > longestOption) {
			return &OptionError{name, fmt.Sprintf("must be at least 10 ms and at most a year; it is %v", value)}
		}
	}
	for name, value := range map[string]time.Duration{"wait_timeout": o.WaitTimeout, "grace": o.Grace} {
		if value > longestOption {
			return &OptionError{name, fmt.Sprintf("must be at most a year; it is %v", value)}
		}
	}
	_, err := o.livenessAddress()
	return err
}

// livenessAddress returns the address of the option LivenessPort for net.Listen, or "".
func (o *Options) livenessAddress() (string, error) {
	if o.LivenessPort == "" {
		return "", nil
	}
	address := o.LivenessPort
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil || port < 1 || port > 65535 {
		return "", &OptionError{"liveness_port", fmt.Sprintf("must be a port from 1 to 65535, or HOST:PORT; it is %q", o.LivenessPort)}
	}
	return address, nil
}

// withDefaults returns the options with the defaults of options that are not set.
func (o Options) withDefaults() Options {
	if len(o.Queues) == 0 {
		o.Queues = []string{"default"}
	}
	if o.Slots == 0 {
		o.Slots = 1
	}
	if o.Batch == 0 {
		o.Batch = mostSlots
	}
	if o.WorkerID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "host"
		}
		o.WorkerID = fmt.Sprintf("%s-%d-%08x", host, os.Getpid(), rand.Uint32())
	}
	o.WaitTimeout = timeOr(o.WaitTimeout, 30*time.Second)
	o.Grace = timeOr(o.Grace, 25*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// timeOr returns the default of an option whose value is 0, and 0 if the value is negative.
func timeOr(value, standard time.Duration) time.Duration {
	if value == 0 {
		return standard
	}
	return max(value, 0)
}
