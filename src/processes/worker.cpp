// The main function of the worker of a database. The launcher starts the worker; the postmaster looks up
// jobq_worker_main by name. The worker connects and runs rounds as long as the next round is due within about a second.
// Otherwise, it exits, because DROP DATABASE fails while a session is connected. The state of the database in shared
// memory contains everything that other processes must know. An exit callback cleans up that state, no matter how the
// process ends.
#include "compat/pg.h"

#include "compat/latch.h"
#include "compat/settings.h"
#include "core/launch.h"
#include "groups/unblock.h"
#include "groups/unblocked_list.h"
#include "processes/notify.h"
#include "processes/process.h"
#include "processes/prompt_steps.h"
#include "processes/round.h"
#include "shmem/database_state.h"
#include "shmem/wall_clock.h"
#include "wait/notices.h"

extern "C" {
#include "pgstat.h"
#include "storage/ipc.h"
}

namespace jobq {

namespace {

// If the next round is due within this time, the worker stays connected and waits, because waiting costs less than
// starting a new worker. The time is longer than the default of jobq.tick_interval.
constexpr core::Micros kLinger = core::kSecond + 100000;
constexpr core::Micros kMinWait = 1000;

DatabaseState *own = nullptr;
bool leaving_in_order = false;

// Cleans up the database state when the process exits, including after errors and SIGTERM. Runs after the process has
// left the list of sessions, because exit callbacks run in reverse order, and this callback is registered before the
// process joins the list. So when the state has no pid, DROP DATABASE no longer finds the session.
void detach(int, Datum) {
    if (own == nullptr) return;
    const bool counts_as_failure = !leaving_in_order && !must_make_room(own);
    give_up_round(own);
    stop_unblocking();
    const TimestampTz now = GetCurrentTimestamp();
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    if (counts_as_failure) {
        own->failures++;
        own->not_before = now + core::launch_backoff(own->failures);
        strlcpy(own->last_error, "the worker exited unexpectedly; see the server log", kErrorBytes);
        own->last_error_at = now;
        own->last_error_step = kWorkerStep;
        own->last_error_over_at = 0;
    }
    own->worker = nullptr;
    own->pid = 0;
    own->leave = false;
    LWLockRelease(database_states_lock());
    // This check must come after `worker` is cleared. A commit that happens later sees no worker and wakes up the
    // launcher itself. This check finds the work of an earlier commit.
    pg_memory_barrier();
    if (notices_waiting(own) || (unblocked_waiting(own) && own->rests != core::Rest::Copy)) lower_due(own, now);
    wake_launcher();
}

// Records the process in the state of its database. Returns false if the process must exit because the previous worker
// still exists or a command requires that no session is connected to the database.
bool attach(DatabaseState *db, Oid database) {
    on_shmem_exit(detach, Datum(0));
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const bool mine = pg_atomic_read_u32(&db->database) == database && db->pid == 0;
    const bool welcome = mine && db->keep_out == 0;
    if (mine) db->starting = false;
    if (welcome) {
        db->pid = MyProcPid;
        db->worker = MyProc;
        db->in_round = false;
        own = db;
    }
    LWLockRelease(database_states_lock());
    if (welcome) start_unblocking(db);
    return welcome;
}

[[noreturn]] void leave_in_order() {
    leaving_in_order = true;
    proc_exit(0);
}

// Runs rounds until nothing is due soon or the worker must exit.
void run_rounds() {
    RoundState state = {AllocSetContextCreate(TopMemoryContext, "jobq round", ALLOCSET_DEFAULT_SIZES), 0,
                        own->steps[static_cast<int>(core::Duty::Unblock)].done};
    bool done_one = false;
    for (;;) {
        if (asked_to_stop()) return;
        if (reload_settings()) {
            // Makes a round due, because the last round might have used the old settings although the launcher had
            // already read the new settings.
            everything_is_due(checked_now());
            if (!database_served()) return;
        }
        if (!settings.enabled || must_make_room(own)) return;
        const TimestampTz now = checked_now();
        const TimestampTz notices_due = send_notices(own, now);
        // If another database needs the process slot of this worker, the worker exits after it has run at least one
        // round.
        if (own->leave && done_one) return;
        const TimestampTz supervision_due = run_supervision(own, state.context);
        const TimestampTz unblock_due =
            own->extension == Presence::Present ? run_unblocking(own, state.context) : kNothingDue;

        const bool first_visit = !done_one && own->extension == Presence::Unknown;
        const TimestampTz due = due_of(own);
        if (first_visit || due <= now) {
            if (!run_round(own, &state)) return;
            done_one = true;
            continue;
        }
        const bool far_off = due == kNothingDue || due - now > kLinger;
        const TimestampTz next = Min(Min(notices_due, unblock_due), supervision_due);
        if (far_off && next == kNothingDue && !more_notices_likely(now)) return;
        wait_for_latch(core::clamp_sleep(now, Min(due, next), kMinWait, kLinger), WaitEvent::WorkerMain);
    }
}

}  // namespace

extern "C" {

PGDLLEXPORT void jobq_worker_main(Datum database_index) {
    begin_process(database_index, attach);
    // Checks again whether the database is served, because the process might have read newer settings than the
    // launcher.
    if (database_served()) run_rounds();
    leave_in_order();
}

}  // extern "C"

}  // namespace jobq
