// See supervise.h. core::plan_executors() decides which executor is started and which executor must exit.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/background_process.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "handlers/executor_policy.h"
#include "handlers/executor_slots.h"
#include "handlers/handler.h"
#include "handlers/handler_job.h"
#include "handlers/supervise.h"
#include "identity/identity.h"
#include "queues/directory.h"
#include "wait/peek.h"

#include <algorithm>

extern "C" {
#include "commands/dbcommands.h"
}

namespace jobq {

namespace {

constexpr ProcessKind kExecutor = {"jobq executor", "jobq_executor_main"};
// Minimum time between two log messages that say that handlers are waiting for an executor.
constexpr core::Micros kWaitReportPause = 10 * core::kMinute;

// The supervision interrupts a job that exceeds its max_runtime by more than this duration. Usually, the duty "rescue"
// ends such a job earlier, but the duty skips the job if the handler has locked the job's row, for example by saving
// the progress of the job.
constexpr core::Micros kPassedBy = 2 * core::kSecond;

// Returns one row per job that is still running under one of the given leases of executors: the lease, and whether the
// job must stop. $3 is the current time minus kPassedBy.
Statement read_handled = {
    R"(SELECT j.lease, j.stops FROM unnest($1, $2) AS u(id, lease),
            LATERAL (SELECT j.lease, j.cancel_requested_at IS NOT NULL OR coalesce(j._must_end_at <= $3, false) AS stops
                     FROM jobq.jobs j
                     WHERE j.id = u.id AND j.lease = u.lease AND j.status = 'processing') j)",
    {INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID}};

// A local copy of the executors' slots, which are in shared memory.
struct Executors {
    ExecutorSlot slots[kMaxExecutors];
};

bool works(const ExecutorSlot &slot) {
    return slot.pid != 0 && slot.database == MyDatabaseId && slot.now.job != 0 && !slot.reported;
}

// Interrupts each executor whose job must stop or no longer runs under the executor's lease. Terminates the executor if
// it does not respond to the interrupt.
void end_what_is_to_stop(const Executors &executors, TimestampTz now) {
    Datum jobs[kMaxExecutors], leases[kMaxExecutors];
    int count = 0;
    for (const ExecutorSlot &slot : executors.slots) {
        if (!works(slot)) continue;
        jobs[count] = Int64GetDatum(slot.now.job);
        leases[count++] = Int64GetDatum(slot.now.lease);
    }
    if (count == 0) return;
    const Rows running = run(read_handled, Params()
                                               .add(array_of(jobs, count, INT8OID))
                                               .add(array_of(leases, count, INT8OID))
                                               .add(TimestampTzGetDatum(now - kPassedBy)));
    for (int i = 0; i < kMaxExecutors; i++) {
        const ExecutorSlot &slot = executors.slots[i];
        if (!works(slot)) continue;
        bool stops = true;
        for (uint64 row = 0; row < running.size(); row++)
            if (running[row].int64_at(1) == slot.now.lease) stops = running[row].bool_at(2);
        if (!stops) continue;
        if (slot.interrupted != slot.now.lease)
            interrupt_executor(i, slot.now.lease, now);
        else if (now - slot.interrupted_at >= cancel_grace() || now < slot.interrupted_at)
            terminate_executor(i, slot.now.lease);
    }
}

int busy_with(const Executors &executors, const Handler &handler) {
    int busy = 0;
    for (const ExecutorSlot &slot : executors.slots)
        busy += slot.pid != 0 && slot.database == MyDatabaseId && slot.handler == handler.hash &&
                slot.state == ExecutorState::Busy;
    return busy;
}

bool has_job(const Handler &handler) {
    require_known_queue(handler.queue);
    const Outlook outlook = read_outlook(handler.queue);
    if (outlook.paused || outlook.limited) return false;
    return scan_lanes(handler.queue, handler.filter, cstring_to_text(kExecutorWorker)).found == Peek::Claimable;
}

// The pools of executors in this database, one for each role.
struct Pools {
    core::PoolFacts *items;
    const char **names;
    int count;
};

bool rests(const Executors &executors, Oid role) {
    return std::any_of(std::begin(executors.slots), std::end(executors.slots), [&](const ExecutorSlot &slot) {
        return slot.state == ExecutorState::Failed && slot.database == MyDatabaseId && slot.role == role;
    });
}

void add_to_pool(Pools *pools, const Executors &executors, Oid role, const char *name, bool wants_one) {
    for (int i = 0; i < pools->count; i++) {
        if (pools->items[i].role != role) continue;
        pools->items[i].wants_one |= wants_one;
        return;
    }
    pools->items[pools->count] = {role, wants_one, rests(executors, role)};
    pools->names[pools->count++] = name;
}

Pools find_pools(const Handlers &handlers, const Executors &executors) {
    Pools pools = {allocate_array<core::PoolFacts>(static_cast<uint64>(handlers.count)),
                   allocate_array<const char *>(static_cast<uint64>(handlers.count)), 0};
    for (const Handler *handler = handlers.items; handler < handlers.items + handlers.count; handler++) {
        HandlerTarget target;
        if (resolve_handler(*handler, &target).sqlstate != 0) continue;
        const bool wants_one = busy_with(executors, *handler) < handler->max_executors && has_job(*handler);
        add_to_pool(&pools, executors, target.role, handler->run_as, wants_one);
    }
    return pools;
}

int facts_of(const Executors &executors, core::ExecutorFacts *facts, int *indexes) {
    int count = 0;
    for (int i = 0; i < kMaxExecutors; i++) {
        const ExecutorSlot &slot = executors.slots[i];
        const bool starting = slot.state == ExecutorState::Starting;
        if (!starting && slot.state != ExecutorState::Idle && slot.state != ExecutorState::Busy) continue;
        const bool idle = slot.state == ExecutorState::Idle;
        indexes[count] = i;
        facts[count++] = {.database = slot.database,
                          .role = slot.role,
                          .idle = idle,
                          .starting = starting,
                          .leaving = slot.leave,
                          .since = idle ? slot.since : slot.started_at,
                          .asked = slot.asked_at};
    }
    return count;
}

void report_executor_wait(DatabaseState *db, ExecutorWait wait, TimestampTz now) {
    const bool begins = wait != ExecutorWait::None && db->executors_wait == ExecutorWait::None;
    db->executors_wait = wait;
    note_executor_wait(wait != ExecutorWait::None, now);
    if (!begins || bounded(db->wait_reported_at + kWaitReportPause, now, kWaitReportPause) > now) return;
    db->wait_reported_at = now;
    const bool no_process = wait == ExecutorWait::NoProcess;
    ereport(
        LOG,
        (no_process
             ? errmsg("jobq: handlers in database \"%s\" are waiting because all background worker slots are in use",
                      get_database_name(MyDatabaseId))
             : errmsg("jobq: handlers in database \"%s\" are waiting because all executors are busy",
                      get_database_name(MyDatabaseId)),
         no_process ? errhint("Increase \"max_worker_processes\".") : errhint("Increase \"jobq.max_executors\".")));
}

// The role of the executor that was started most recently. The pools take turns, and the pool that follows this role's
// pool is next.
Oid started_last = InvalidOid;
void rotate(Pools *pools) {
    const auto *last = std::find_if(pools->items, pools->items + pools->count,
                                    [](const core::PoolFacts &pool) { return pool.role == started_last; });
    if (last == pools->items + pools->count) return;
    const auto behind = last - pools->items + 1;
    std::rotate(pools->items, pools->items + behind, pools->items + pools->count);
    std::rotate(pools->names, pools->names + behind, pools->names + pools->count);
}

// Starts an executor. Returns false if max_worker_processes leaves no room.
bool start_executor(Oid role, const char *role_name, TimestampTz now) {
    ExecutorSlot *slot = take_executor_slot(MyDatabaseId, role, settings.max_executors, now);
    // No executor can be started now, because another database has taken the last slot, or because the role must wait
    // after a failed start. The next supervision tries again.
    if (slot == nullptr) return true;
    started_last = role;
    const ExecutorArguments arguments = {slot->generation, MyDatabaseId, role};
    const char *name = psprintf("%s for %s as %s", kExecutor.type, get_database_name(MyDatabaseId), role_name);
    if (register_process(kExecutor, name, Int32GetDatum(index_of_executor(slot)), &arguments, sizeof(arguments),
                         nullptr))
        return true;
    give_back_executor_slot(slot);
    return false;
}

// Starts at most one executor and asks at most one executor to exit. Each start and each exit of an executor requests
// the next supervision.
void start_or_make_room(DatabaseState *db, const Handlers &handlers, const Executors &executors, TimestampTz now) {
    Pools pools = find_pools(handlers, executors);
    rotate(&pools);
    core::ExecutorFacts facts[kMaxExecutors];
    int indexes[kMaxExecutors];
    const int count = facts_of(executors, facts, indexes);
    const int ahead = databases_ahead(now);
    const auto plan_with = [&](int most) {
        return core::plan_executors(MyDatabaseId, pools.items, pools.count, facts, count, most, ahead, now);
    };
    core::ExecutorPlan plan = plan_with(settings.max_executors);
    ExecutorWait wait = plan.shortage ? ExecutorWait::NoPlace : ExecutorWait::None;
    if (plan.start >= 0 && !start_executor(pools.items[plan.start].role, pools.names[plan.start], now)) {
        wait = ExecutorWait::NoProcess;
        // max_worker_processes allows no more processes, so one executor must exit.
        plan = plan_with(count);
    }
    // Reports the wait before asking an executor to exit, so that the background worker in the database of that
    // executor sees that another database is waiting.
    report_executor_wait(db, wait, now);
    if (plan.leave >= 0)
        ask_executor_to_leave(indexes[plan.leave], executors.slots[indexes[plan.leave]].generation, now);
    else if (plan.shortage && count < settings.max_executors && ahead > 0)
        call_longest_waiting(now);
}

uint64 queues_of(const Handlers &handlers) {
    uint64 bits = 0;
    for (const Handler *handler = handlers.items; handler < handlers.items + handlers.count; handler++) {
        QueueName name;
        copy_queue(name, handler->queue);
        bits |= handler_bit(name);
    }
    return bits;
}

}  // namespace

void supervise_executors(TimestampTz now) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    const Handlers handlers = read_handlers(nullptr);
    const uint64 queues = queues_of(handlers);
    // Stores the queues of the handlers in shared memory before the search for jobs, so that a commit that adds a job
    // after the search requests another supervision.
    pg_atomic_write_u64(&db->handler_queues, queues);
    pg_atomic_write_u32(&db->executors_wanted, handlers.count > 0);
    pg_memory_barrier();
    auto *executors = static_cast<Executors *>(palloc(sizeof(Executors)));
    tidy_executors(now);
    read_executors(executors->slots);
    with_spi([&] {
        end_what_is_to_stop(*executors, now);
        if (handlers.count == 0 || settings.max_executors == 0 || leaves_jobs_alone()) {
            report_executor_wait(db, ExecutorWait::None, now);
            return;
        }
        start_or_make_room(db, handlers, *executors, now);
    });
}

}  // namespace jobq
