// The library's entry point, _PG_init, and the functions that run at the end of a transaction, in the order in which
// they run.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "claim/round_robin.h"
#include "commit/at_commit.h"
#include "commit/prepared.h"
#include "compat/async_commit.h"
#include "compat/library_version.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "compat/transaction.h"
#include "edges/awaited_jobs.h"
#include "groups/line_start.h"
#include "groups/successors.h"
#include "groups/unblock.h"
#include "groups/unblocked_list.h"
#include "handlers/call_executors.h"
#include "handlers/executor_slots.h"
#include "handlers/handler_job.h"
#include "handlers/handler_state.h"
#include "identity/data_directory.h"
#include "job/change_job.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "leases/rescue_index.h"
#include "leases/young_leases.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "limits/throttled_ranges.h"
#include "log/logged.h"
#include "metrics/connected_workers.h"
#include "metrics/counters.h"
#include "metrics/recent_filters.h"
#include "metrics/totals.h"
#include "processes/database_commands.h"
#include "processes/drop_extension.h"
#include "processes/launcher.h"
#include "processes/triggers_changed.h"
#include "row/inheritance.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "table/early_toast.h"
#include "wait/job_waiters.h"
#include "wait/notices.h"
#include "wait/wake_notes.h"
#include "waiters/waiters.h"

namespace jobq {

namespace {

// All functions that process the log of a transaction (log/logged.h) at its end, in the order in which they run. The
// section "The end of a transaction" in docs/internals/transactions.md gives the reasons for this order.
constexpr TransactionPart kTransactionParts[] = {
    {Phase::BeforeCommit, promote_successors},
    {Phase::BeforeCommit, settle_prepared_before_commit},
    {Phase::BeforeCommit, send_news_of_lanes},
    {Phase::BeforeCommit, note_end_before_commit},
    {Phase::BeforeCommit, choose_async_commit},  // must be last, because nothing may be written after it

    {Phase::BeforePrepare, make_room_before_prepare},
    {Phase::BeforePrepare, index_own_leases},  // runs triggers, which may claim and enter lanes
    {Phase::BeforePrepare, send_news_of_lanes},

    {Phase::Prepare, drop_line_starts},
    {Phase::Prepare, keep_log},
    {Phase::Prepare, undo_lanes},
    {Phase::Prepare, clear_log},

    // The functions without which other sessions would get wrong results come first.
    {Phase::Commit, publish_claimable},
    {Phase::Commit, publish_lines},
    {Phase::Commit, raise_slot_bounds},
    // The functions without which other sessions would read stale values come next.
    {Phase::Commit, publish_counts},
    {Phase::Commit, publish_totals},
    {Phase::Commit, publish_deadlines},
    {Phase::Commit, end_successions},
    {Phase::Commit, keep_line_starts},
    // The functions whose effects can wait briefly come last.
    {Phase::Commit, publish_unblocked},

    {Phase::AfterCommit, wake_for_freed_slots},
    {Phase::AfterCommit, wake_for_claimable},
    {Phase::AfterCommit, call_executors_for_claimable},
    {Phase::AfterCommit, wake_for_finished},
    {Phase::AfterCommit, clear_log},

    {Phase::Abort, forget_apart},
    {Phase::Abort, forget_claims},
    {Phase::Abort, abandon_recount},
    {Phase::Abort, undo_unblocking},
    {Phase::Abort, end_successions},
    {Phase::Abort, drop_line_starts},
    {Phase::Abort, undo_lanes},
    {Phase::Abort, leave_prepared_to_worker},

    {Phase::AfterAbort, wake_for_slots_not_taken},
    {Phase::AfterAbort, wake_for_claims_undone},
    {Phase::AfterAbort, call_executors_for_slots_not_taken},
    {Phase::AfterAbort, clear_log},

    {Phase::SavepointCommit, hand_line_looks_to_parent},
    {Phase::SavepointCommit, hand_log_to_parent},

    {Phase::SavepointAbort, forget_apart},
    {Phase::SavepointAbort, forget_claims},
    {Phase::SavepointAbort, abandon_recount},
    {Phase::SavepointAbort, undo_unblocking_of_savepoint},
    {Phase::SavepointAbort, void_line_looks_of_savepoint},
    {Phase::SavepointAbort, undo_lanes_of_savepoint},
    {Phase::SavepointAbort, roll_back_log},

    {Phase::AfterSavepointAbort, wake_for_slots_not_taken},
    {Phase::AfterSavepointAbort, wake_for_claims_undone},
    {Phase::AfterSavepointAbort, call_executors_for_slots_not_taken},
};
static_assert(in_order(kTransactionParts));

// The parts of the shared memory. A part without a usage function has no entries that could be counted.
constexpr SharedParts kSharedParts = {
    {Part::Databases, 1, "jobq databases", "JobqDatabases", database_states_size, make_database_states,
     database_states_usage},
    {Part::Prepared, 1, "jobq prepared", "JobqPrepared", prepared_size, make_prepared, prepared_usage},
    {Part::Counters, 1, "jobq counters", "JobqCounters", counters_size, make_counters, counters_usage},
    {Part::Totals, 1, "jobq totals", "JobqTotals", totals_size, make_totals, totals_usage},
    {Part::Notices, 1, "jobq notices", "JobqNotices", notices_size, make_notices, notices_usage},
    {Part::Waiters, kWaiterPartitions, "jobq waiters", "JobqWaiters", waiters_size, make_waiters, waiters_usage},
    {Part::EmptyRanges, kLockPartitions, "jobq empty ranges", "JobqLanes", empty_ranges_size, make_empty_ranges,
     empty_ranges_usage},
    {Part::YoungLeases, kLockPartitions, "jobq young leases", "JobqLeases", young_leases_size, make_young_leases,
     young_leases_usage},
    {Part::JobWaiters, kLockPartitions, "jobq job waiters", "JobqJobWaiters", job_waiters_size, make_job_waiters,
     job_waiters_usage},
    {Part::Limits, kLockPartitions, "jobq limits", "JobqLimits", limits_size, make_limits, limits_usage},
    {Part::ThrottledRanges, 1, "jobq throttled ranges", "JobqThrottledRanges", throttled_ranges_size,
     make_throttled_ranges, throttled_ranges_usage},
    {Part::Unblocked, 1, "jobq unblocked", "JobqUnblocked", unblocked_list_size, make_unblocked_list,
     unblocked_list_usage},
    {Part::AwaitedJobs, 1, "jobq awaited jobs", "JobqAwaitedJobs", awaited_jobs_size, make_awaited_jobs,
     awaited_jobs_usage},
    {Part::RecentFilters, 1, "jobq recent filters", "JobqRecentFilters", recent_filters_size, make_recent_filters,
     recent_filters_usage},
    {Part::ConnectedWorkers, 1, "jobq connected workers", "JobqWorkers", connected_workers_size, make_connected_workers,
     connected_workers_usage},
    {Part::WakeNotes, 1, "jobq wake notes", "JobqWakeNotes", wake_notes_size, make_wake_notes, wake_notes_usage},
    {Part::Executors, 1, "jobq executors", "JobqExecutors", executors_size, make_executors, executors_usage},
    {Part::RoundRobin, 0, "jobq round robin", nullptr, round_robin_size, make_round_robin, round_robin_usage},
    {Part::LineStarts, 0, "jobq line starts", nullptr, line_starts_size, make_line_starts, line_starts_usage},
    {Part::RecentClaims, 0, "jobq recent claims", nullptr, recent_claims_size, make_recent_claims, nullptr},
    {Part::Successions, 0, "jobq successions", nullptr, successions_size, make_successions, nullptr},
    {Part::DataDirectory, 0, "jobq data directory", nullptr, data_directory_size, make_data_directory, nullptr},
};
static_assert(in_order(kSharedParts));

void lease_has_ended(int64 job, int64 lease) {
    end_lease(job, lease);
    note_lease_end(job, lease);
}

// Functions that job/change_job.h calls as soon as a job has changed.
constexpr ChangeCallbacks kChangeCallbacks = {publish_ready, lease_has_ended, named_slot_freed};

}  // namespace

}  // namespace jobq

extern "C" {

PGDLLEXPORT void _PG_init(void);

// Defines the settings and registers the functions above. If the library is being preloaded, also reserves the shared
// memory, installs hooks for utility commands, and registers the launcher.
void _PG_init(void) {
    jobq::require_only_library();
    jobq::define_settings();
    jobq::install_query_hooks();
    jobq::set_change_callbacks(&jobq::kChangeCallbacks);
    jobq::take_part_in_transactions(jobq::kTransactionParts, lengthof(jobq::kTransactionParts));
    jobq::collect_executors_with(jobq::collect_executors);
    jobq::be_only_library();
    if (!process_shared_preload_libraries_in_progress) return;
    jobq::request_shared_memory(jobq::kSharedParts);
    jobq::install_database_commands_hook();
    jobq::install_drop_extension_hook();
    jobq::install_triggers_hook();
    jobq::install_inheritance_hook();
    jobq::register_launcher();
}

}  // extern "C"
