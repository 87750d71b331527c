// Package jobq contains workers and producers for jobq, the job queue in PostgreSQL, on pgx v5. See README.md in this directory.
//
// A worker uses one connection to claim jobs and to wait for them, one for heartbeats, so that reports cannot delay them, and one for
// reports. Its handlers share a pool, which opens connections when they are needed.
package jobq

// Version is the version of this package, which the view jobq.workers shows.
const Version = "0.1.0"
