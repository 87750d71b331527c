// The jobq.* configuration parameters. They are defined in settings.cpp. All code outside src/core may read them.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// The values of jobq.access, which determines how the rows of jobq.jobs are read and written (row/jobs_table.h).
struct Access {
    enum Way : int { Auto, Sql, Direct };
};

// The values of jobq.adopt, which determines whether a copy of a database adopts its jobs automatically
// (identity/identity.h).
struct Adopt {
    enum When : int { Manual, Auto };
};

struct Settings {
    bool enabled;             // jobq.enabled: whether background workers run
    char *databases;          // jobq.databases: comma-separated names; empty: all databases with the extension
    int tick_interval_ms;     // jobq.tick_interval: maximum pause between two rounds of the background worker while a
                              // database is in use
    int max_workers;          // jobq.max_workers: maximum number of background workers
    int rescue_batch;         // jobq.rescue_batch: jobs per transaction
    int promote_batch;        // jobq.promote_batch: jobs per transaction
    int prune_batch;          // jobq.prune_batch: jobs checked per transaction
    char *worker_id;          // jobq.worker_id: name of the worker if a claim gives none
    int max_payload_kb;       // jobq.max_payload
    int cancel_grace_ms;      // jobq.cancel_grace: how long a running job may ignore a cancellation
    int log_duties;           // jobq.log_duties: message level at which rounds that changed something are logged
    int max_tracked_lanes;    // jobq.max_tracked_lanes: maximum number of lanes that shared memory tracks
    int max_young_leases;     // jobq.max_young_leases: maximum number of claims of about the last second that shared
                              // memory tracks
    int max_limits;           // jobq.max_limits: maximum number of limits that shared memory tracks in the whole server
    bool async_heartbeats;    // jobq.async_heartbeats: a heartbeat that is the only action of its transaction commits
                              // asynchronously
    bool async_claims;        // jobq.async_claims: like jobq.async_heartbeats, but for a claim
    bool notify;              // jobq.notify: whether background workers send NOTIFY
    bool require_queues;      // jobq.require_queues: whether a job is rejected if its queue was not created with
                              // jobq_create_queue
    int max_counted_queues;   // jobq.max_counted_queues: maximum number of queues with counters in the whole server
    int max_metric_series;    // jobq.max_metric_series: maximum number of (queue, kind) pairs with totals in the whole
                              // server
    bool track_metrics;       // jobq.track_metrics: whether sessions count what happens to jobs
    int keep_lanes_s;         // jobq.keep_lanes: how long an unused lane is kept; 0: permanently
    int access;               // jobq.access
    int adopt;                // jobq.adopt
    bool schedules;           // jobq.schedules: whether schedules fire
    int max_executors;        // jobq.max_executors: maximum number of processes that run handlers in the whole server
    bool superuser_handlers;  // jobq.superuser_handlers: whether handlers may run as superusers
    int max_steps;            // jobq.max_steps: maximum number of steps of one job
    int max_step_kb;          // jobq.max_step_bytes: maximum size of the result of one step
    int keep_signals_s;       // jobq.keep_signals: how long signals to a queue are kept; 0: permanently
    int reconcile_interval_s;  // jobq.reconcile_interval: minimum time between two recounts of the jobs
    // jobq.max_queues: maximum number of queues; a job that would create another queue is rejected; -1: no limit
    int max_queues;
};

extern Settings settings;

constexpr int kDefaultMetricSeries = 500;

inline core::Micros tick_interval() { return settings.tick_interval_ms * core::kMillisecond; }
inline core::Micros cancel_grace() { return settings.cancel_grace_ms * core::kMillisecond; }

// Upper bound of jobq.max_executors.
constexpr int kMaxExecutors = 64;

// Defines all parameters. Called once by _PG_init.
void define_settings();

// Returns whether jobq.databases allows background workers in the database.
bool database_selected(const char *name);

}  // namespace jobq
