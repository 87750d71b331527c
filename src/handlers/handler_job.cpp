// See handler_job.h.
#include "compat/pg.h"

#include "claim/claim.h"
#include "compat/args.h"
#include "compat/json_object.h"
#include "compat/transaction_fate.h"
#include "core/retry.h"
#include "finish/held_jobs.h"
#include "handlers/executor_slots.h"
#include "handlers/handler_job.h"
#include "metrics/recent_filters.h"
#include "row/owner.h"
#include "row/payload.h"

namespace jobq {

namespace {

// `own_lease` is the lease of the job on which the handler is working. `ended` is true if a committed transaction of
// the handler has ended the job. `ended_by` is a transaction that has ended the job but might not have committed yet.
int64 own_lease = 0;
bool ended = false;
TransactionId ended_by = InvalidTransactionId;

// Returns whether the handler itself has ended the job, either in the current transaction or in a transaction that the
// procedure has committed. Returns false if the savepoint in which the handler ended the job was rolled back.
bool ended_itself() {
    if (TransactionIdIsValid(ended_by) && TransactionIdIsCurrentTransactionId(ended_by)) return true;
    ended |= fate_of(ended_by) == Fate::Committed;
    ended_by = InvalidTransactionId;
    return ended;
}

// Returns the columns of the claimed job. The result is allocated in the current memory context.
HandlerJobRow row_of(const JobsTable &jobs) {
    bool none;
    const auto number = [&](JobColumn which) { return DatumGetInt32(job_value(jobs, which)); };
    const auto moment = [&](JobColumn which) { return DatumGetTimestampTz(job_value(jobs, which)); };
    const auto words = [&](JobColumn which) { return make_text(view(DatumGetTextPP(job_value(jobs, which)))); };
    const auto json = [&](JobColumn which) {
        const Datum value = job_value(jobs, which, &none);
        return none ? nullptr : DatumGetJsonbPCopy(value);
    };
    HandlerJobRow row = {};
    row.queue = words(kJobQueue);
    row.kind = words(kJobKind);
    row.payload = json(kJobPayload);
    row.progress = json(kJobProgress);
    row.metadata = json(kJobMetadata);
    row.attempt = core::next_attempt(number(kJobAttempts));
    row.max_attempts = number(kJobMaxAttempts);
    row.priority = DatumGetInt16(job_value(jobs, kJobPriority));
    row.version = number(kJobVersion);
    row.run_at = moment(kJobRunAt);
    row.created_at = moment(kJobCreatedAt);
    return row;
}

// Receives the claimed job and writes its lease into the executor's slot before the claim becomes visible.
class OneJob : public ClaimSink {
 public:
    OneJob(MemoryContext memory, HandlerJob *job) : memory_(memory), job_(job) {}
    bool take(const ClaimedJob &claimed) override {
        MemoryContext outer = MemoryContextSwitchTo(memory_);
        job_->id = DatumGetInt64(job_value(*claimed.jobs, kJobId));
        job_->lease = claimed.lease;
        job_->row = row_of(*claimed.jobs);
        MemoryContextSwitchTo(outer);
        note_next_lease(job_->id, job_->lease);
        return true;
    }

 private:
    MemoryContext memory_;
    HandlerJob *job_;
};

// Returns the details of an error, with the keys that clients/CONTRACT.md defines. Each text is truncated as an error
// text is.
Datum details_of(const ErrorData *error) {
    JsonObject details;
    const auto add = [&](const char *key, const char *value) {
        if (value != nullptr) details.text_of(key, view(truncated_error(CStringGetTextDatum(value), false)));
    };
    add("class", unpack_sql_state(error->sqlerrcode));
    add("stack", error->context);
    add("detail", error->detail);
    add("hint", error->hint);
    return details.made();
}

HeldJob held_of(const HandlerJob &job) {
    HeldJob held = {};
    held.id = job.id;
    held.lease = job.lease;
    return held;
}

}  // namespace

bool claim_for_handler(const KnownHandler &known, MemoryContext memory, HandlerJob *job) {
    const Handler &handler = known.handler;
    const TimestampTz now = GetCurrentTimestamp();
    note_filter(handler.queue, handler.filter, now);
    ClaimRequest request = {};
    request.worker_id = cstring_to_text(kExecutorWorker);
    request.batch = 1;
    request.filter = handler.filter;
    request.heartbeat_timeout = core::kEndlessLease;
    // While a procedure runs, its job's row must not be updated. Otherwise, a procedure that sets the isolation level
    // of its transactions would fail with a serialization error.
    request.written_once = known.target.is_procedure;
    OneJob sink(memory, job);
    job->has_settings = handler.setting_count > 0;
    return claim_jobs(request, handler.queue, now, &sink) > 0;
}

// Returns a JSON object whose keys are the names of the columns that jobq_claim returns.
Datum argument_of(const HandlerJob &job) {
    const HandlerJobRow &row = job.row;
    JsonObject argument;
    argument.number("id", job.id);
    argument.number("lease", job.lease);
    argument.text_of("queue", view(row.queue));
    argument.text_of("kind", view(row.kind));
    argument.json("payload", row.payload);
    argument.number("attempt", row.attempt);
    argument.number("max_attempts", row.max_attempts);
    argument.number("priority", row.priority);
    argument.number("version", row.version);
    argument.moment("run_at", row.run_at);
    argument.moment("created_at", row.created_at);
    argument.json("progress", row.progress);
    argument.json("metadata", row.metadata);
    // The value is NULL, because a job that runs in an executor needs no heartbeats.
    argument.json("heartbeat_seconds", nullptr);
    return argument.made();
}

void complete_handled(const HandlerJob &job, bool has_result, Datum result) {
    HeldJob held = held_of(job);
    if (has_result) check_json_size(result, "result");
    held.extra = result;
    held.has_extra = has_result;
    complete_jobs(&held, 1, nullptr, GetCurrentTimestamp());
    if (!held.held && !ended_itself()) lease_is_lost(job.id);
}

bool fail_handled(const HandlerJob &job, const ErrorData *error, const char *text, bool stopped) {
    HeldJob held = held_of(job);
    with_owner_spi([&] {
        held.extra = CStringGetTextDatum(text);
        held.has_extra = true;
        held.details = details_of(error);
        if (stopped)
            fail_stopped_job(&held, GetCurrentTimestamp());
        else
            fail_jobs(&held, 1, nullptr, -1, true, GetCurrentTimestamp());
    });
    return held.held;
}

void give_back_handled(const HandlerJob &job) {
    with_owner_spi([&] {
        HeldJob held = held_of(job);
        give_back_jobs(&held, 1, nullptr, 0, AttemptOutcome::Released, GetCurrentTimestamp());
    });
}

void begin_handled(const HandlerJob *job) {
    own_lease = job == nullptr ? 0 : job->lease;
    ended = false;
    ended_by = InvalidTransactionId;
}

void note_lease_end(int64, int64 lease) {
    if (own_lease != 0 && lease == own_lease) ended_by = GetCurrentTransactionId();
}

void note_end_before_commit() {
    if (own_lease != 0 && ended_itself()) note_own_report(own_lease);
}

}  // namespace jobq
