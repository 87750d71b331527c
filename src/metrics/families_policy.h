// The catalog of metrics, which contains their names, types, labels, and help texts. jobq_metrics() and
// jobq_prometheus() return exactly these metrics, and jobq.metric_families() lists them for people who configure
// exporters. Names follow the conventions of Prometheus: base units, and "_total" for counters.
#pragma once

#include "core/metrics.h"

namespace jobq::core {

// The columns are the identifier, name, type, labels, and help text of a metric. Every metric of a queue has "queue" as
// its first label. The label "overflow" is "true" in the sample that sums up all queues and kinds beyond
// jobq.max_metric_series; the labels "queue" and "kind" of this sample are empty. In all other samples, "overflow" is
// empty.
// clang-format off
#define JOBQ_FAMILIES(FAMILY)                                                                                          \
    FAMILY(Jobs, "jobq_jobs", Gauge, "queue,status,overflow", "Jobs in each status.")                                  \
    FAMILY(OldestPending, "jobq_queue_oldest_pending_seconds", Gauge, "queue", "How long the oldest claimable job has been due; 0 if there is none.") \
    FAMILY(OldestHeartbeat, "jobq_queue_oldest_heartbeat_seconds", Gauge, "queue", "Time since the oldest heartbeat of a running job.") \
    FAMILY(Paused, "jobq_queue_paused", Gauge, "queue", "Whether the queue is paused.")                                \
    FAMILY(Workers, "jobq_busy_workers", Gauge, "queue", "Number of different worker names that hold jobs.")           \
    FAMILY(Waiting, "jobq_waiting_sessions", Gauge, "queue", "Sessions that sleep in jobq_wait().")                    \
    FAMILY(HaltedGroups, "jobq_halted_groups", Gauge, "queue", "Groups that wait because a job has failed (group_on_failure).") \
    FAMILY(ConnectedWorkers, "jobq_connected_workers", Gauge, "queue", "Workers that take jobs of the queue and have recently called with worker_info.") \
    FAMILY(JobsEnqueued, "jobq_jobs_enqueued_total", Counter, "queue,kind,overflow", "New jobs: enqueued, inserted with plain SQL, or restored from a dump.") \
    FAMILY(JobsClaimed, "jobq_jobs_claimed_total", Counter, "queue,kind,overflow", "Claimed jobs, that is, started attempts.") \
    FAMILY(AttemptsEnded, "jobq_attempts_ended_total", Counter, "queue,kind,outcome,overflow", "Ended attempts: completed; failed; lost: no heartbeat in time; released: given back; withdrawn: canceled, or changed with plain SQL.") \
    FAMILY(JobsCompleted, "jobq_jobs_completed_total", Counter, "queue,kind,overflow", "Completed jobs.")              \
    FAMILY(JobsFailed, "jobq_jobs_failed_total", Counter, "queue,kind,overflow", "Jobs that failed permanently.")      \
    FAMILY(JobsCancelled, "jobq_jobs_cancelled_total", Counter, "queue,kind,overflow", "Jobs canceled by users.")     \
    FAMILY(JobsDropped, "jobq_jobs_dropped_total", Counter, "queue,kind,overflow", "Jobs canceled by jobq because a dependency had failed or the queue was full.") \
    FAMILY(JobsExpired, "jobq_jobs_expired_total", Counter, "queue,kind,overflow", "Jobs canceled by jobq because no worker had claimed them before expires_at.") \
    FAMILY(JobsRetried, "jobq_jobs_retried_total", Counter, "queue,kind,overflow", "Finished jobs that were retried.") \
    FAMILY(JobsDeleted, "jobq_jobs_deleted_total", Counter, "queue,kind,overflow", "Deleted jobs: pruned, not kept after completion, or deleted by users.") \
    FAMILY(JobWait, "jobq_job_wait_seconds", Histogram, "queue,kind,overflow", "Time from when a job was due (run_at) to its claim.") \
    FAMILY(JobRun, "jobq_job_run_seconds", Histogram, "queue,kind,overflow", "Time from a claim to the end of the attempt, except for lost attempts.") \
    FAMILY(StatsReset, "jobq_stats_reset_timestamp_seconds", Gauge, "", "Time when the totals and histograms were last reset.") \
    FAMILY(Missed, "jobq_missed_transactions_total", Counter, "", "Transactions that are missing from the totals, entirely or in part.") \
    FAMILY(Schedules, "jobq_schedules", Gauge, "state", "Schedules: active, paused, failing.")                         \
    FAMILY(SchedulesOverdue, "jobq_schedules_overdue_seconds", Gauge, "", "How long the most overdue schedule has been due.") \
    FAMILY(RunsSkipped, "jobq_schedule_runs_skipped", Gauge, "", "Skipped runs of all existing schedules.")            \
    FAMILY(Batches, "jobq_batches", Gauge, "state", "Batches: open, sealed, failing, finished.")                       \
    FAMILY(Executors, "jobq_executors", Gauge, "state", "Processes that run handlers in this database: idle, busy.")   \
    FAMILY(ExecutorsMax, "jobq_max_executors", Gauge, "", "Maximum number of processes that run handlers in the whole server: the setting jobq.max_executors.") \
    FAMILY(LauncherUp, "jobq_launcher_up", Gauge, "", "Whether the launcher of the background workers runs.")          \
    FAMILY(SharedMemoryEntries, "jobq_shared_memory_entries", Gauge, "part", "Entries in use of each table in shared memory, in the whole server.") \
    FAMILY(SharedMemoryCapacity, "jobq_shared_memory_capacity", Gauge, "part", "Number of entries that each table in shared memory has room for.") \
    FAMILY(SharedMemoryEvictions, "jobq_shared_memory_evictions_total", Counter, "part", "Entries that a table in shared memory has lost because it was full, since the server started.") \
    FAMILY(RoundOverdue, "jobq_round_overdue_seconds", Gauge, "", "How late the next round of the duties is.")         \
    FAMILY(Rounds, "jobq_rounds_total", Counter, "", "Rounds of the duties since the server started.")                 \
    FAMILY(DutyJobs, "jobq_duty_jobs_total", Counter, "duty", "Jobs that each duty has changed since the server started.") \
    FAMILY(DutyFailures, "jobq_duty_failures", Gauge, "duty", "How many times in a row a duty has failed; 0 if it works.") \
    FAMILY(Copy, "jobq_copy", Gauge, "", "Whether the database is a copy whose jobs do not run.")                      \
    FAMILY(Info, "jobq_info", Gauge, "version,library,preloaded", "Always 1; the labels are the versions of the extension and of the library.")
// clang-format on

enum class Family : std::uint8_t {
#define JOBQ_FAMILY(name, metric, type, labels, help) name,
    JOBQ_FAMILIES(JOBQ_FAMILY)
#undef JOBQ_FAMILY
};

struct FamilyType {
    static constexpr char Gauge[] = "gauge", Counter[] = "counter", Histogram[] = "histogram";
};

struct FamilyRow {
    const char *name;
    const char *type;    // a name in FamilyType
    const char *labels;  // separated by commas
    const char *help;
};
constexpr FamilyRow kFamilies[] = {
#define JOBQ_FAMILY(name, metric, type, labels, help) {metric, FamilyType::type, labels, help},
    JOBQ_FAMILIES(JOBQ_FAMILY)
#undef JOBQ_FAMILY
};
constexpr const FamilyRow &row_of(Family family) noexcept { return kFamilies[static_cast<int>(family)]; }

// The metric family that a total belongs to, and the value of the label "outcome" if the family has this label.
struct TallyLabel {
    Family family;
    const char *outcome;
};
constexpr TallyLabel kTallyLabels[] = {
#define JOBQ_TALLY(name, family, outcome) {Family::family, outcome},
    JOBQ_TALLIES(JOBQ_TALLY)
#undef JOBQ_TALLY
};
constexpr Family family_of(Span span) noexcept { return span == Span::Wait ? Family::JobWait : Family::JobRun; }

}  // namespace jobq::core
