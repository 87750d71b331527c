// The settings jobq.*: declared here, defined in settings.cpp, read anywhere in the shell.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// jobq.access: how the rows of jobq.jobs are read and written (row/jobs_table.h).
struct Access {
    enum Way : int { Auto, Sql, Direct };
};

// jobq.adopt: what becomes of a copy (identity/identity.h).
struct Adopt {
    enum When : int { Manual, Auto };
};

struct Settings {
    bool enabled;              // jobq.enabled: background workers run
    char *databases;           // jobq.databases: comma-separated names, empty: every one that has the extension
    int tick_interval_ms;      // jobq.tick_interval: longest pause between rounds while a database is in use
    int max_workers;           // jobq.max_workers: background workers at the same time
    int rescue_batch;          // jobq.rescue_batch: jobs per transaction
    int promote_batch;         // jobq.promote_batch: jobs per transaction
    int prune_batch;           // jobq.prune_batch: jobs looked at per transaction
    char *worker_id;           // jobq.worker_id: name of the worker when a claim gives none
    int max_payload_kb;        // jobq.max_payload
    int cancel_grace_ms;       // jobq.cancel_grace: how long a running job may ignore a cancellation
    int log_duties;            // jobq.log_duties: level at which rounds that did something are logged
    int max_tracked_lanes;     // jobq.max_tracked_lanes: lanes of which something may be known in shared memory
    int max_young_leases;     // jobq.max_young_leases: claims of the last second that shared memory keeps an eye on
    int max_limits;            // jobq.max_limits: limits that shared memory remembers, in the whole server
    bool async_heartbeats;     // jobq.async_heartbeats: heartbeats that are their whole transaction do not wait for the
                               // disk
    bool async_claims;         // jobq.async_claims: nor do such claims
    bool notify;               // jobq.notify: background workers send NOTIFY
    bool require_queues;       // jobq.require_queues: refuse names without settings
    int max_counted_queues;    // jobq.max_counted_queues: queues with counters, in the whole server
    int max_metric_series;     // jobq.max_metric_series: queues and kinds with totals, in the whole server
    bool track_metrics;        // jobq.track_metrics: sessions count what happens to jobs
    int keep_lanes_s;          // jobq.keep_lanes: a lane that was entered so long ago may be retired; 0: never
    int access;                // jobq.access
    int adopt;                 // jobq.adopt
    bool schedules;            // jobq.schedules: schedules fire
    int max_executors;         // jobq.max_executors: processes that run handlers, in the whole server
    bool superuser_handlers;   // jobq.superuser_handlers: they may run as superusers
    int max_steps;             // jobq.max_steps: of one job
    int max_step_kb;           // jobq.max_step_bytes: the result of one step
    int keep_signals_s;        // jobq.keep_signals: signals to a queue are kept so long; 0: for ever
    int reconcile_interval_s;  // jobq.reconcile_interval: at least so long between two counts of the table
    int max_queues;            // jobq.max_queues: queues up to which a job may make a new one; -1: no bound
};

extern Settings settings;

constexpr int kDefaultMetricSeries = 500;

inline core::Micros tick_interval() { return settings.tick_interval_ms * core::kMillisecond; }
inline core::Micros cancel_grace() { return settings.cancel_grace_ms * core::kMillisecond; }

// As many executors as the server may have, whatever the setting says.
constexpr int kMaxExecutors = 64;

// Called once by _PG_init.
void define_settings();

// Whether background workers may run in the database of that name, by jobq.databases.
bool database_selected(const char *name);

}  // namespace jobq
