// See handler_state.h.
#include "compat/pg.h"

#include "compat/served.h"
#include "compat/settings.h"
#include "handlers/executor_policy.h"
#include "handlers/executor_slots.h"
#include "handlers/handler_state.h"
#include "identity/identity.h"
#include "row/job_scans.h"
#include "row/owner.h"
#include "shmem/memory.h"

extern "C" {
#include "access/xlog.h"
}

namespace jobq {

namespace {

// Returns the reason why no handler in this database can run, or nullptr if handlers can run.
const char *why_off() {
    if (RecoveryInProgress()) return "handlers do not run on a standby";
    if (!shared_memory_ready()) return "background workers run handlers; add jobq to shared_preload_libraries";
    if (!settings.enabled) return "jobq.enabled is off";
    if (settings.max_executors == 0) return "jobq.max_executors is 0";
    if (const char *reason = reason_of(why_unserved(MyDatabaseId))) return reason;
    if (leaves_jobs_alone()) return "the database is a copy; its jobs do not run until you run SELECT jobq_adopt()";
    return nullptr;
}

// Returns the reason why no executor can be started, or nullptr if an executor can be started.
const char *why_waiting(ExecutorWait wait) {
    if (wait == ExecutorWait::NoPlace) return "all executors are busy with other handlers; increase jobq.max_executors";
    if (wait == ExecutorWait::NoProcess) return "no executor can be started; increase max_worker_processes";
    return nullptr;
}

struct Counted {
    int executors, running;
    int free;     // number of executors that are not busy
    bool failed;  // an executor failed to start
};

// Checks whether there is a claimable job for the handler.
Statement find_claimable = {
    R"(SELECT EXISTS (SELECT FROM jobq.lane_directory d,
                          LATERAL (SELECT FROM jobq.jobs j
                                   WHERE j._lane = d.lane AND j._ready AND j.run_at <= $3 AND j.queue = $1
                                     AND )" NOT_EXPIRED("$3") R"( LIMIT 1) j
                      WHERE d.queue = $1 AND d.kind = $2))",
    {TEXTOID, TEXTOID, TIMESTAMPTZOID}};

Datum text_of(std::string_view name) {
    return PointerGetDatum(cstring_to_text_with_len(name.data(), static_cast<int>(name.size())));
}

bool has_claimable(const Handler &handler) {
    bool found = false;
    with_owner_spi([&] {
        found = read(find_claimable, Params()
                                         .add(text_of(handler.queue))
                                         .add(text_of(handler.kind))
                                         .add(TimestampTzGetDatum(GetCurrentTimestamp())))[0]
                    .bool_at(1);
    });
    return found;
}

Counted count_executors(const Handler &handler, Oid role) {
    Counted counted = {};
    if (!shared_memory_ready()) return counted;
    const uint64 hash = core::handler_hash(handler.queue, handler.kind);
    auto *slots = static_cast<ExecutorSlot *>(palloc(sizeof(ExecutorSlot) * kMaxExecutors));
    read_executors(slots);
    for (const ExecutorSlot *slot = slots; slot < slots + kMaxExecutors; slot++) {
        if (slot->database != MyDatabaseId || slot->role != role) continue;
        counted.executors += slot->pid != 0;
        counted.free += slot->state == ExecutorState::Idle || slot->state == ExecutorState::Starting;
        counted.running += slot->state == ExecutorState::Busy && slot->handler == hash;
        counted.failed |= slot->state == ExecutorState::Failed;
    }
    pfree(slots);
    return counted;
}

}  // namespace

HandlerState state_of_handler(const Handler &handler) {
    HandlerTarget target;
    const Problem problem = resolve_handler(handler, &target);
    const Counted counted = count_executors(handler, get_role_oid(handler.run_as, true));
    HandlerState state = {"idle", nullptr, counted.executors, counted.running};
    const DatabaseState *db = known_session_database();
    if (problem.sqlstate != 0) {
        state.state = "broken";
        state.reason = problem.message;
    } else if (counted.running > 0) {
        state.state = "running";
    } else if ((state.reason = why_off()) != nullptr) {
        state.state = "off";
    } else if (counted.failed) {
        state.state = "waiting";
        state.reason = "its executor exited before the handler could start; see the server log";
    } else if (counted.executors == 0 && db != nullptr && (state.reason = why_waiting(db->executors_wait)) != nullptr) {
        state.state = "waiting";
    } else if (counted.executors > 0 && counted.free == 0 && has_claimable(handler)) {
        state.state = "waiting";
        state.reason = "the executors of its role are busy with other handlers";
    }
    return state;
}

void collect_executors(Samples *samples) {
    auto *slots = static_cast<ExecutorSlot *>(palloc(sizeof(ExecutorSlot) * kMaxExecutors));
    read_executors(slots);
    int idle = 0, busy = 0;
    for (const ExecutorSlot *slot = slots; slot < slots + kMaxExecutors; slot++) {
        if (slot->database != MyDatabaseId) continue;
        idle += slot->state == ExecutorState::Idle || slot->state == ExecutorState::Starting;
        busy += slot->state == ExecutorState::Busy;
    }
    samples->add(sample_of(core::Family::Executors, idle).with("state", "idle"));
    samples->add(sample_of(core::Family::Executors, busy).with("state", "busy"));
    samples->gauge(core::Family::ExecutorsMax, settings.max_executors);
}

}  // namespace jobq
