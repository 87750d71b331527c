// The SQL procedures jobq_wait and jobq_wait_any, which sleep until there might be a job for this worker, and the SQL
// function jobq_wake, which ends such a sleep.
//
// wait/sleep.h explains why they are procedures, and what a procedure must do to read the tables.
#include "compat/pg.h"

#include "claim/claim_functions.h"
#include "claim/queue_arguments.h"
#include "compat/args.h"
#include "compat/latch.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "compat/spi.h"
#include "core/job.h"
#include "identity/identity.h"
#include "metrics/connected_workers.h"
#include "metrics/recent_filters.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"
#include "wait/peek.h"
#include "wait/sleep.h"
#include "wait/wake_notes.h"
#include "waiters/lookout.h"
#include "waiters/waiters.h"

namespace jobq {

namespace {

// Maximum time between two scans for a job. This limit is needed because no session is notified of jobs that were
// inserted with triggers disabled, or of claims that were rolled back.
constexpr core::Micros kPoll = core::kSecond;
// Time between the first two scans for a job if the library is not preloaded. In this case, only scans find jobs. The
// time doubles after each further scan, up to kPoll.
constexpr core::Micros kFirstPoll = 100 * core::kMillisecond;
// Time until the next scan while other transactions hold all claimable jobs. The time doubles after each scan, up to
// kPoll.
constexpr core::Micros kFirstHeldPoll = 5 * core::kMillisecond;
// Time for which a call does not report a claimable job that the previous call has already reported. The time doubles
// with each further report of the same job, up to kLongestDoubt.
constexpr core::Micros kFirstDoubt = core::kMillisecond;
constexpr core::Micros kLongestDoubt = 100 * core::kMillisecond;

// The state of one call to jobq_wait() or jobq_wait_any().
struct Wait {
    const char *name;  // name of the procedure
    Oid procedure;
    Oid user;  // the caller
    QueueArguments queues;
    core::WorkerFilter filter;
    int64 worker;     // core::worker_key; 0: the worker has no name
    text *worker_id;  // the name under which the worker claims
    int batch;
    const Jsonb *info;  // nullptr: the worker does not describe itself
    core::Micros deadline;
    core::Micros last_look;
    core::Micros next_look;
    core::Micros poll;
    core::Micros doubt_until;  // 0: no doubt yet
    int looks;
    bool another_goes;  // another sleeper is on its way to claim the job that the scan has found
    Seen seen;
    QueueName seen_in;  // the queue of the job that the scan has found
};

// The job that was last reported by a call in this session.
struct LastReport {
    int64 job_id;
    core::Micros at;
    core::Micros doubt;
};
LastReport last_report;

// Returns the selected queues in the form that the list of waiters needs.
WaitedQueues waited_queues(const Wait &wait, const SelectedQueues &selected) {
    auto *names = allocate_array<std::string_view>(static_cast<uint64>(selected.count));
    auto *excluded = allocate_array<std::string_view>(static_cast<uint64>(selected.count));
    const Names &patterns = wait.queues.patterns;
    bool *pattern_excludes = allocate_array<bool>(static_cast<uint64>(patterns.count));
    for (int i = 0; i < patterns.count; i++)
        pattern_excludes[i] = batch_of(wait.queues, {{}, wait.queues.queues.count + i}, wait.batch) == 0;
    WaitedQueues queues = {};
    queues.names = names;
    queues.excluded = excluded;
    for (int i = 0; i < selected.count; i++) {
        const SelectedQueue &queue = selected.items[i];
        if (batch_of(wait.queues, queue, wait.batch) == 0) {
            if (i < selected.named) excluded[queues.excluded_count++] = queue.name;
            continue;
        }
        names[queues.count++] = queue.name;
        queues.named += i < selected.named;
    }
    queues.patterns = patterns.items;
    queues.pattern_excludes = pattern_excludes;
    queues.pattern_count = patterns.count;
    queues.user = wait.user;
    return queues;
}

// Returns the queues that the caller has named. The transaction that looks for jobs adds the queues that match the
// patterns.
WaitedQueues named_queues(const Wait &wait) {
    QueueArguments named = wait.queues;
    named.patterns.count = 0;
    return waited_queues(wait, select_queues(named, nullptr));
}

// Adds what the scan of a queue has found to what the scans of other queues have found. Prefers a job that the previous
// call has not reported, because the previous report did not lead to a claim of its job.
void add_seen(Wait *wait, std::string_view queue, const Seen &seen) {
    wait->seen.due = Min(wait->seen.due, seen.due);
    const bool better =
        seen.found > wait->seen.found || (seen.found == Peek::Claimable && wait->seen.job_id == last_report.job_id);
    if (!better) return;
    wait->seen.found = seen.found;
    wait->seen.job_id = seen.job_id;
    copy_queue(wait->seen_in, queue);
}

bool has_found_new_job(const Wait &wait) {
    return wait.seen.found == Peek::Claimable && wait.seen.job_id != last_report.job_id;
}

// Scans for a job, in one transaction.
void look(Wait *wait) {
    begin_look();
    run_as_owner(wait->procedure, wait->name, [&] {
        const TimestampTz now = GetCurrentTimestamp();
        note_worker(wait->info);
        // The grants of the caller might have changed since the last scan. They matter only to the queues that match a
        // pattern, because the names of the other queues were checked when the wait began.
        const QueueScope *scope = wait->queues.patterns.count > 0 ? scope_of(wait->user, wait->procedure) : nullptr;
        const WaitedQueues queues = waited_queues(*wait, select_queues(wait->queues, scope));
        auto *outlooks = allocate_array<Outlook>(static_cast<uint64>(queues.count));
        auto *paused = allocate_array<bool>(static_cast<uint64>(queues.count));
        for (int i = 0; i < queues.count; i++) {
            note_filter(queues.names[i], wait->filter, now);
            if (i < queues.named) require_known_queue(queues.names[i]);
            outlooks[i] = read_outlook(queues.names[i]);
            paused[i] = outlooks[i].paused;
        }
        PopActiveSnapshot();
        update_waiter(queues, paused, monotonic_now());
        PushActiveSnapshot(GetTransactionSnapshot());
        wait->seen = {Peek::Nothing, 0, DT_NOEND};
        for (int i = 0; i < queues.count && !has_found_new_job(*wait); i++) {
            wait->seen.due = Min(wait->seen.due, outlooks[i].due);
            if (!outlooks[i].paused && !outlooks[i].limited)
                add_seen(wait, queues.names[i], scan_lanes(queues.names[i], wait->filter, wait->worker_id));
        }
    });
    wait->last_look = monotonic_now();
    wait->looks++;
}

// Returns whether the call should report the job that the scan has found. If the previous call reported the same job
// and the worker did not get it, the job is blocked by something that the scan does not detect, and the worker must not
// repeat the call and the claim in a busy loop.
bool worth_telling(Wait *wait) {
    wait->another_goes = false;
    if (wait->seen.found != Peek::Claimable) return false;
    const core::Micros now = wait->last_look;
    const bool again = last_report.job_id == wait->seen.job_id && now - last_report.at < core::kSecond;
    if (again && wait->doubt_until == 0) {
        last_report.doubt = Min(Max(last_report.doubt * 2, kFirstDoubt), kLongestDoubt);
        wait->doubt_until = now + last_report.doubt;
    }
    if (again && now < wait->doubt_until) return false;
    // A commit or a new token of a rate limit can make many sleepers scan at once. It is enough if one sleeper per
    // filter claims jobs, because its claim wakes the next sleeper if the claim leaves jobs.
    wait->another_goes = !set_out(queue_view(wait->seen_in), wait->looks > 1);
    if (wait->another_goes) return false;
    if (!again) last_report.doubt = 0;
    last_report.job_id = wait->seen.job_id;
    last_report.at = now;
    return true;
}

void plan_next_look(Wait *wait) {
    switch (wait->seen.found) {
        case Peek::Claimable:
            wait->next_look = wait->another_goes ? wait->last_look + kOnItsWay : wait->doubt_until;
            return;
        case Peek::Held:
            wait->poll = wait->poll == 0 ? kFirstHeldPoll : Min(wait->poll * 2, kPoll);
            break;
        case Peek::Nothing:
            wait->poll = shared_memory_ready() ? kPoll : Min(Max(wait->poll * 2, kFirstPoll), kPoll);
            break;
    }
    wait->next_look = wait->last_look + wait->poll;
    // Plans an earlier scan if a rate limit will get a token, or the trial of a suspect might end, before the next
    // scan.
    if (wait->seen.due != DT_NOEND)
        wait->next_look = Min(wait->next_look, wait->last_look + Max(wait->seen.due - GetCurrentTimestamp(), 0));
}

// Sleeps until a job is promised to this worker, there is a reason to scan, jobq_wake() wakes the worker, or the
// timeout ends.
void sleep(const Wait &wait) {
    core::Micros lookout_since = 0;  // 0: this session is not the lookout
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        const Signals signals = waiter_signals();
        if (signals.job || signals.woken) return;
        core::Micros until = Min(wait.deadline, wait.next_look);
        if (signals.look) until = Min(until, wait.last_look + kLookGap);
        const core::Micros now = monotonic_now();
        if (signals.lookout) {
            if (lookout_since == 0) lookout_since = now;
            until = Min(until, lookout_since + kLookoutGap);
        }
        if (now >= until) return;
        wait_for_latch(until - now, WaitEvent::Wait);
    }
}

// Waits for a job. Returns false if jobq_wake() has woken the worker. In this case, the worker might be about to stop,
// so the jobs that were promised to it are promised to other workers instead.
bool wait_for_job(Wait *wait) {
    // The commit releases the caller's snapshot.
    SPI_commit();
    enter_waiters(named_queues(*wait), core::digest_of(wait->filter), wait->worker, wait->batch);
    if (wait->worker != 0 && take_wake_note(wait->worker, monotonic_now())) return false;
    bool rely_on_lookout = wait->deadline - monotonic_now() > kOnItsWay && lookout_scans();
    for (;;) {
        if (rely_on_lookout) {
            wait->next_look = monotonic_now() + kPoll;
            rely_on_lookout = false;
        } else {
            look(wait);
            if (waiter_signals().woken) return false;
            if (worth_telling(wait) || wait->last_look >= wait->deadline) return true;
            plan_next_look(wait);
            end_look();
        }
        sleep(*wait);
        check_client();
        const Signals signals = waiter_signals();
        if (signals.woken) return false;
        if (signals.job) return true;
    }
}

int64 key_of(const text *worker_id) { return worker_id == nullptr ? 0 : core::worker_key(view(worker_id)); }

// Waits for jobs of wait->queues. Reads the arguments that both procedures have: `timeout` at position 1, the filter
// from position 2 on, `worker_id` at position 5, `batch` at position 6, and `worker_info` at position `info_at`.
Datum wait_for_jobs_of_queues(FunctionCallInfo fcinfo, Wait *wait, int info_at) {
    wait->procedure = fcinfo->flinfo->fn_oid;
    wait->user = GetUserId();
    require(fcinfo, 1, "timeout");
    const core::Micros timeout = check_span(PG_GETARG_INTERVAL_P(1), "timeout", Zero::Allowed);
    wait->deadline = core::saturating_add(monotonic_now(), timeout);
    wait->filter = checked_filter(fcinfo, 2);
    wait->worker = key_of(worker_id_argument(fcinfo, 5));
    wait->worker_id = worker_id_or_default(fcinfo, 5);
    require(fcinfo, 6, "batch");
    wait->batch = Min(PG_GETARG_INT32(6), core::kMaxBatch);
    if (wait->batch < 1)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"batch\" must be at least 1, not %d", wait->batch),
                        errhint("Specify the maximum number of jobs to claim after the wait.")));
    wait->info = worker_info_argument(fcinfo, info_at, wait->worker_id);
    note_worker(wait->info);
    bool served = false;
    PG_TRY();
    { served = wait_for_job(wait); }
    PG_CATCH();
    {
        leave_waiters(false);
        PG_RE_THROW();
    }
    PG_END_TRY();
    leave_waiters(served);
    SPI_finish();
    PG_RETURN_VOID();
}

// Checks that the caller is allowed to wait, and prepares the wait.
void begin_wait(FunctionCallInfo fcinfo, const char *name) {
    require_autocommit(fcinfo, name);
    require_worker_may(fcinfo);
    // From here on, memory is allocated in the SPI context, which outlives the transactions.
    SPI_connect_ext(SPI_OPT_NONATOMIC);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_wait);
PGDLLEXPORT Datum jobq_wait(PG_FUNCTION_ARGS) {
    Wait wait = {};
    wait.name = "jobq_wait";
    begin_wait(fcinfo, wait.name);
    std::string_view queue = view(granted_queue(fcinfo, 0, "queue"));
    wait.queues.queues = {&queue, 1};
    return wait_for_jobs_of_queues(fcinfo, &wait, 7);
}

PG_FUNCTION_INFO_V1(jobq_wait_any);
PGDLLEXPORT Datum jobq_wait_any(PG_FUNCTION_ARGS) {
    Wait wait = {};
    wait.name = "jobq_wait_any";
    begin_wait(fcinfo, wait.name);
    wait.queues = queue_arguments(fcinfo, {0, 7, -1, -1, 8});
    return wait_for_jobs_of_queues(fcinfo, &wait, 9);
}

PG_FUNCTION_INFO_V1(jobq_wake);
PGDLLEXPORT Datum jobq_wake(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const text *worker_id = require_text(fcinfo, 0, "worker_id");
    check_worker_id(view(worker_id));
    if (!shared_memory_ready())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("jobq_wake() requires the jobq library to be preloaded"),
                        errhint("Add jobq to \"shared_preload_libraries\" and restart the server, or use short "
                                "timeouts for jobq_wait().")));
    const uint64 note = leave_wake_note(key_of(worker_id), monotonic_now());
    const int ended = end_waits(key_of(worker_id));
    if (ended > 0) take_back_wake_note(note);
    PG_RETURN_INT32(ended);
}

}  // extern "C"

}  // namespace jobq
