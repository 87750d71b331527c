// Defines the configuration parameters jobq.* with their bounds, units, and contexts. See settings.h. A parameter that
// only background workers use can be changed only with a reload (PGC_SIGHUP), because a value that is set in a session
// would never reach the workers.
#include "compat/pg.h"

#include "compat/settings.h"
#include "core/job.h"

extern "C" {
#include "utils/varlena.h"
}

namespace jobq {

Settings settings;

namespace {

const config_enum_entry kLogLevels[] = {{"debug5", DEBUG5, false}, {"debug4", DEBUG4, false}, {"debug3", DEBUG3, false},
                                        {"debug2", DEBUG2, false}, {"debug1", DEBUG1, false}, {"debug", DEBUG1, true},
                                        {"log", LOG, false},       {nullptr, 0, false}};

const config_enum_entry kAccess[] = {
    {"auto", Access::Auto, false}, {"sql", Access::Sql, false}, {"direct", Access::Direct, false}, {nullptr, 0, false}};

const config_enum_entry kAdopt[] = {
    {"manual", Adopt::Manual, false}, {"auto", Adopt::Auto, false}, {nullptr, 0, false}};

// Splits a list of database names. Does not convert the names to lower case, because names in pg_database are
// case-sensitive.
bool split_names(char *copy, List **names) { return SplitGUCList(copy, ',', names); }

bool check_databases(char **value, void **, GucSource) {
    char *copy = pstrdup(*value);
    List *names = NIL;
    const bool valid = split_names(copy, &names);
    if (!valid) GUC_check_errdetail("It must be a comma-separated list of database names.");
    list_free(names);
    pfree(copy);
    return valid;
}

bool check_worker_id(char **value, void **, GucSource) {
    if (strlen(*value) <= core::kMaxWorkerBytes) return true;
    GUC_check_errdetail("The name of a worker can have at most %d bytes.", static_cast<int>(core::kMaxWorkerBytes));
    return false;
}

void define_worker_settings() {
    DefineCustomBoolVariable("jobq.enabled", "Runs jobq's background workers.",
                             "If off, only jobq_tick() rescues leases and promotes delayed jobs.", &settings.enabled,
                             true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomStringVariable("jobq.databases", "Databases in which background workers run, separated by commas.",
                               "If empty, they run in every database that has the extension.", &settings.databases, "",
                               PGC_SIGHUP, GUC_LIST_INPUT, check_databases, nullptr, nullptr);
    DefineCustomBoolVariable(
        "jobq.notify",
        "Background workers send NOTIFY jobq with the name of a queue in which jobs "
        "became claimable.",
        "They send at most one notification per 10 ms. If off, only sessions in jobq_wait() are notified of new jobs.",
        &settings.notify, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "jobq.schedules", "Schedules enqueue their jobs when they are due.",
        "If off, all schedules wait, as they do while the server is down. jobq_run_schedule() still works.",
        &settings.schedules, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_executors",
                            "Maximum number of processes that run handlers at the same time, in all databases.",
                            "They count toward max_worker_processes. If 0, no handler runs.", &settings.max_executors,
                            2, 0, kMaxExecutors, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.superuser_handlers", "Allows handlers to run as superusers.",
                             "If off, no such handler can be set, and existing ones do not run.",
                             &settings.superuser_handlers, false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_workers",
                            "Maximum number of jobq's background workers that run at the same time.",
                            "They count toward max_worker_processes, as does the launcher.", &settings.max_workers, 3,
                            1, 64, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

void define_duty_settings() {
    DefineCustomIntVariable(
        "jobq.tick_interval", "Longest pause between two rounds while a database has unfinished jobs.", nullptr,
        &settings.tick_interval_ms, 1000, 10, 60000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.rescue_batch", "Maximum number of jobs that one transaction rescues.", nullptr,
                            &settings.rescue_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "jobq.promote_batch",
        "Maximum number of jobs that one transaction promotes or cancels because they have expired.", nullptr,
        &settings.promote_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.prune_batch", "Maximum number of jobs that one transaction of the prune duty checks.",
                            nullptr, &settings.prune_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr,
                            nullptr);
    DefineCustomEnumVariable("jobq.log_duties", "Level at which rounds that changed something are logged.", nullptr,
                             &settings.log_duties, DEBUG1, kLogLevels, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "jobq.reconcile_interval", "Minimum time between two counts of all jobs, which check the counters.",
        "The time between two counts is also at least 100 times as long as a count takes.",
        &settings.reconcile_interval_s, 300, 1, 86400 * 24, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.keep_lanes", "How long the directory keeps lanes that have no claimable jobs.",
                            "If a deleted lane is used again, the next producer adds it. If 0, lanes are kept forever.",
                            &settings.keep_lanes_s, 86400, 0, 86400 * 365, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("jobq.keep_signals", "How long signals to a queue are kept.",
                            "Jobs that await a signal later do not get it. If 0, signals are kept forever.",
                            &settings.keep_signals_s, 86400 * 30, 0, 86400 * 3650, PGC_SIGHUP, GUC_UNIT_S, nullptr,
                            nullptr, nullptr);
    DefineCustomEnumVariable("jobq.adopt", "When the jobs of a copied database run.",
                             "If manual, only after jobq_adopt() has been called. If auto, without this call.",
                             &settings.adopt, Adopt::Manual, kAdopt, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.cancel_grace", "How long a running job can ignore a cancellation.",
                            "After that time, its worker loses the job.", &settings.cancel_grace_ms, 60000, 0, INT_MAX,
                            PGC_SUSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
}

// Defines the parameters that determine the size of the shared memory, but only if the library is preloaded, because
// otherwise there is no shared memory.
void define_memory_settings() {
    if (!process_shared_preload_libraries_in_progress) return;
    // The default is a multiple of eight, because entries are allocated in sets of eight.
    DefineCustomIntVariable("jobq.max_tracked_lanes",
                            "Maximum number of lanes for which shared memory holds the position of the first job.",
                            "In other lanes, claims must skip the index entries of jobs that are gone.",
                            &settings.max_tracked_lanes, 1024, 8, 1000000, PGC_POSTMASTER, 0, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable(
        "jobq.max_young_leases", "Maximum number of claims from the last second that shared memory tracks.",
        "Each claim beyond this number costs an additional index entry.", &settings.max_young_leases, 16384, 8,
        10000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_limits",
                            "Maximum number of limits of queues and keys in use at the same time, in all databases.",
                            "If more are in use, a rate may let fewer jobs start than it allows. Each limit takes "
                            "about 0.3 kB of shared memory.",
                            &settings.max_limits, 8192, 8, 10000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "jobq.max_counted_queues", "Maximum number of queues with counters, in all databases together.",
        "Other queues are counted row by row. Each queue with counters takes about 1 kB of shared memory. If 0, there "
        "are no counters.",
        &settings.max_counted_queues, 1024, 0, 1000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "jobq.max_metric_series",
        "Maximum number of combinations of queue and kind with totals in jobq_metrics(), in all databases.",
        "Other combinations are counted together, without names. Each combination with totals takes about 0.9 kB of "
        "shared memory. If 0, there are no totals.",
        &settings.max_metric_series, kDefaultMetricSeries, 0, 100000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
}

void define_session_settings() {
    DefineCustomStringVariable("jobq.worker_id", "Name of the worker for claims without a worker_id.",
                               "If empty, the name contains the process ID of the session.", &settings.worker_id, "",
                               PGC_USERSET, 0, check_worker_id, nullptr, nullptr);
    // The maximum is just below 256 MB, the maximum size of a jsonb value.
    DefineCustomIntVariable("jobq.max_payload", "Maximum size of the payload, result, progress, or metadata of a job.",
                            nullptr, &settings.max_payload_kb, 65536, 1, 262143, PGC_SUSET, GUC_UNIT_KB, nullptr,
                            nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_steps",
                            "Maximum number of steps that a job can save, including sleeps and waits.", nullptr,
                            &settings.max_steps, 10000, 1, 1000000, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_step_bytes",
                            "Maximum size of the result of a step and of the payload of a signal.", nullptr,
                            &settings.max_step_kb, 1024, 1, 262143, PGC_SUSET, GUC_UNIT_KB, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.async_heartbeats",
                             "Commits transactions that consist of one heartbeat asynchronously.",
                             "As with synchronous_commit = off, a crash of the server may lose the last heartbeats.",
                             &settings.async_heartbeats, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.async_claims", "Commits transactions that consist of one claim asynchronously.",
                             "A crash of the server may lose the last claims, whose jobs are then claimed again while "
                             "the first workers still run.",
                             &settings.async_claims, false, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomEnumVariable("jobq.access", "How enqueue, claim, complete, and heartbeat access the rows.",
                             "sql: with SQL. direct: without SQL, which is faster, but fails if something attached to "
                             "jobq.jobs requires SQL. auto: direct if possible.",
                             &settings.access, Access::Auto, kAccess, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.track_metrics", "Counts job events for jobq_metrics().",
                             "If off, the totals do not include events that this session causes.",
                             &settings.track_metrics, true, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.require_queues", "Rejects the names of queues that have not been created.", nullptr,
                             &settings.require_queues, false, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_queues",
                            "Maximum number of queues in a database. Jobs for queues beyond this number are rejected.",
                            "Use ALTER ROLE ... SET to limit the number of queues that a producer can create. "
                            "-1 means no limit.",
                            &settings.max_queues, -1, -1, 10000, PGC_SUSET, 0, nullptr, nullptr, nullptr);
}

}  // namespace

void define_settings() {
    define_worker_settings();
    define_duty_settings();
    define_session_settings();
    define_memory_settings();
    MarkGUCPrefixReserved("jobq");
}

bool database_selected(const char *name) {
    if (settings.databases == nullptr || settings.databases[0] == '\0') return true;
    char *copy = pstrdup(settings.databases);
    List *names = NIL;
    bool found = false;
    if (split_names(copy, &names)) {
        ListCell *cell;
        foreach (cell, names) {
            if (strcmp(static_cast<const char *>(lfirst(cell)), name) == 0) found = true;
        }
    }
    list_free(names);
    pfree(copy);
    return found;
}

}  // namespace jobq
