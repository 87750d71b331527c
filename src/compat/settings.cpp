// Definitions of the settings jobq.*: names, bounds, units, and who may change them. See settings.h. Settings of
// background workers change with a reload (SIGHUP), because the value of a session would never reach the workers.
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

// Names are case-sensitive and not folded, like those in pg_database.
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
    GUC_check_errdetail("A worker's name has at most %d bytes.", static_cast<int>(core::kMaxWorkerBytes));
    return false;
}

void define_worker_settings() {
    DefineCustomBoolVariable("jobq.enabled", "Runs jobq's background workers.",
                             "Off: leases are rescued and delayed jobs promoted only by jobq_tick().",
                             &settings.enabled, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomStringVariable("jobq.databases", "Databases in which background workers run, separated by commas.",
                               "Empty: every database that has the extension.", &settings.databases, "", PGC_SIGHUP,
                               GUC_LIST_INPUT, check_databases, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.notify",
                             "Background workers send NOTIFY jobq with the name of a queue in which jobs "
                             "became claimable.",
                             "At most every 10 ms. Off: only jobq_wait() hears of new jobs.", &settings.notify, true,
                             PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.schedules", "Schedules enqueue their jobs when they are due.",
                             "Off: all of them wait, as while the server is down. jobq_run_schedule() goes on to work.",
                             &settings.schedules, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_executors", "Processes that run handlers at the same time, in all databases.",
                            "They count towards max_worker_processes. 0: no handler runs.", &settings.max_executors, 2,
                            0, kMaxExecutors, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.superuser_handlers", "Handlers may run as superusers.",
                             "Off: one that shall is refused, and one that does is broken.",
                             &settings.superuser_handlers, false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_workers", "Background workers of jobq that run at the same time.",
                            "They count towards max_worker_processes, as does the launcher.", &settings.max_workers, 3,
                            1, 64, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

void define_duty_settings() {
    DefineCustomIntVariable(
        "jobq.tick_interval", "Longest pause between two rounds while a database has unfinished jobs.", nullptr,
        &settings.tick_interval_ms, 1000, 10, 60000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.rescue_batch", "Jobs that one transaction of the rescue takes at most.", nullptr,
                            &settings.rescue_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.promote_batch", "Jobs that one transaction of the promotion takes at most.", nullptr,
                            &settings.promote_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("jobq.prune_batch", "Jobs that one transaction of the prune looks at.", nullptr,
                            &settings.prune_batch, 1000, 1, core::kMaxBatch, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomEnumVariable("jobq.log_duties", "Level at which rounds that changed something are logged.", nullptr,
                             &settings.log_duties, DEBUG1, kLogLevels, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.reconcile_interval",
                            "Least time between two counts of the jobs that check the counters.",
                            "A count also rests a hundred times as long as it took.", &settings.reconcile_interval_s,
                            300, 1, 86400 * 24, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.keep_lanes", "How long the directory keeps lanes that have no claimable jobs.",
                            "One that is in use is entered again by the next producer. 0: for ever.",
                            &settings.keep_lanes_s, 86400, 0, 86400 * 365, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("jobq.keep_signals", "How long signals to a queue are kept.",
                            "Jobs that await one later do not see it any more. 0: for ever.", &settings.keep_signals_s,
                            86400 * 30, 0, 86400 * 3650, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomEnumVariable("jobq.adopt", "How a copy of a database comes to run its jobs.",
                             "manual: by jobq_adopt(), until then they are left alone. auto: by itself.",
                             &settings.adopt, Adopt::Manual, kAdopt, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.cancel_grace", "How long a running job may ignore that it was cancelled.",
                            "After that it is taken from its worker.", &settings.cancel_grace_ms, 60000, 0, INT_MAX,
                            PGC_SUSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
}

// These settings size the shared memory. They are defined only if the library is preloaded, because otherwise there is
// none.
void define_memory_settings() {
    if (!process_shared_preload_libraries_in_progress) return;
    // Entries come in sets of eight, so a multiple of eight leaves none unused.
    DefineCustomIntVariable(
        "jobq.max_tracked_lanes", "Lanes of which shared memory may hold where their first jobs are.",
        "Claims in lanes beyond that pass over the index entries of jobs that are gone.", &settings.max_tracked_lanes,
        1024, 8, 1000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_young_leases", "Claims of the last second that shared memory can keep an eye on.",
                            "Claims beyond that cost an index entry more.", &settings.max_young_leases, 16384, 8,
                            10000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "jobq.max_limits", "Limits of queues and keys that are in use at the same time, in all databases.",
        "A rate may let fewer jobs start than it allows when more are in use. About 0.3 kB of shared memory each.",
        &settings.max_limits, 8192, 8, 10000000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_counted_queues", "Queues with counters, in all databases together.",
                            "Further queues are counted row by row. About 1 kB of shared memory each; 0: no counters.",
                            &settings.max_counted_queues, 1024, 0, 1000000, PGC_POSTMASTER, 0, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable(
        "jobq.max_metric_series", "Queues and kinds with totals in jobq_metrics(), in all databases together.",
        "Further ones are counted together, without names. About 0.9 kB of shared memory each; 0: "
        "no totals.",
        &settings.max_metric_series, kDefaultMetricSeries, 0, 100000, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
}

void define_session_settings() {
    DefineCustomStringVariable("jobq.worker_id", "Name of the worker when a claim gives none.",
                               "Empty: a name made of the process id of the session.", &settings.worker_id, "",
                               PGC_USERSET, 0, check_worker_id, nullptr, nullptr);
    // The maximum keeps a jsonb value below 256 MB.
    DefineCustomIntVariable("jobq.max_payload", "Largest payload, result, progress or metadata of a job.", nullptr,
                            &settings.max_payload_kb, 65536, 1, 262143, PGC_SUSET, GUC_UNIT_KB, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("jobq.max_steps", "Steps that one job may save, what it sleeps for and awaits included.",
                            nullptr, &settings.max_steps, 10000, 1, 1000000, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_step_bytes", "Largest result of a step, and payload of a signal.", nullptr,
                            &settings.max_step_kb, 1024, 1, 262143, PGC_SUSET, GUC_UNIT_KB, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.async_heartbeats",
                             "Heartbeats that are their whole transaction do not wait for the disk.",
                             "As with synchronous_commit = off: a crash of the server may forget the last of them.",
                             &settings.async_heartbeats, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.async_claims", "Claims that are their whole transaction do not wait for the disk.",
                             "A crash of the server may forget the last of them, and hand these jobs out again while "
                             "their first workers still run.",
                             &settings.async_claims, false, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomEnumVariable("jobq.access", "Way in which enqueue, claim, complete and heartbeat reach the rows.",
                             "sql: by SQL. direct: below it, which is faster; refused where anything is attached to "
                             "jobq.jobs that takes SQL. auto: direct where it may be.",
                             &settings.access, Access::Auto, kAccess, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.track_metrics", "Counts what happens to jobs, for jobq_metrics().",
                             "Off: what this session does to jobs is missing in the totals.", &settings.track_metrics,
                             true, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("jobq.require_queues", "Refuses names of queues that nobody created.", nullptr,
                             &settings.require_queues, false, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("jobq.max_queues", "Queues of a database from which on a job of a new name is rejected.",
                            "Bounds the names that a producer can make up, for example by ALTER ROLE. -1: no bound.",
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
