// See run_handler.h. An executor runs each job in these steps, so that the changes that a handler makes in this
// database are applied exactly once:
//
//   1. A claim commits. The lease is in the executor's slot.
//   2. One transaction runs the handler, completes the job, and claims the next job. Either all of this
//      commits or none of it.
//   3. If the transaction fails, another transaction records the error, and the job is retried according to the
//      settings of its queue.
#include "compat/pg.h"

#include "compat/call_then.h"
#include "compat/latch.h"
#include "compat/transaction.h"
#include "handlers/executor_policy.h"
#include "handlers/executor_slots.h"
#include "handlers/handler_job.h"
#include "handlers/handler_session.h"
#include "handlers/known_handlers.h"
#include "handlers/run_handler.h"

#include <utility>

extern "C" {
#include "catalog/objectaccess.h"
#include "nodes/params.h"
#include "parser/analyze.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/timeout.h"
}

namespace jobq {

namespace {

// The stage that a transaction has reached. It determines how an error is handled.
enum class Stage : uint8 { Handler, Claim, Commit };

// A job in progress. There are two of these objects, which alternate: one holds the current job, and the other holds
// the job that is claimed when the current job completes.
struct Turn {
    MemoryContext memory;
    HandlerJob job;
};
Turn turns[2];

int next_handler = 0;
TimestampTz turn_began = 0;  // when the turn of the current handler began
// Becomes true when a claim fails in a transaction in which the handler has succeeded. From then on, each claim runs in
// a separate transaction, so that a failed claim does not roll back the work of a handler.
bool claims_apart = false;
// Maximum number of attempts to record an error.
constexpr int kTries = 3;

// The state of a transaction. The caller owns the object, because a longjmp in the transaction leaves local variables
// undefined.
struct Work {
    Turn *turn, *next;     // `next` is nullptr if no other job may be claimed
    bool claimed = false;  // the next job was claimed
    bool unable = false;   // the handler is broken or gone, so it was not called
    volatile Stage stage = Stage::Handler;
};

const KnownHandler *handler_of(const Turn &turn) {
    return known_handler(view(turn.job.row.queue), view(turn.job.row.kind));
}

// Returns whether the handler exists and has no known problem that prevents calling it.
bool is_good(const KnownHandler *known) { return known != nullptr && known->problem.sqlstate == 0; }

bool turn_is_over() {
    const TimestampTz now = GetCurrentTimestamp();
    return now - turn_began >= core::kTurn || now < turn_began;
}

void begin_transaction() {
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
}

// Runs body() in a transaction. Returns nullptr if the transaction has committed; otherwise, returns the error,
// allocated in `memory`.
template <typename Body>
pg_noinline ErrorData *in_transaction(MemoryContext memory, Body body) {
    ErrorData *volatile error = nullptr;
    PG_TRY();
    {
        begin_transaction();
        body();
        CommitTransactionCommand();
    }
    PG_CATCH();
    {
        HOLD_INTERRUPTS();
        disable_all_timeouts(false);
        QueryCancelPending = false;
        MemoryContextSwitchTo(memory);
        error = CopyErrorData();
        abort_after_error();
        FlushErrorState();
        RESUME_INTERRUPTS();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(memory);
    pgstat_report_stat(false);
    return error;
}

// Runs jobq's own work under a snapshot. A procedure, in contrast, is called without a snapshot, because it might
// commit.
template <typename Body>
auto under_snapshot(Body body) {
    PushActiveSnapshot(GetTransactionSnapshot());
    return call_then(body, [] { PopActiveSnapshot(); });
}

// Detoasts the result of a function. A TOAST pointer would refer to a row that another session could delete after the
// function's snapshot is released and before the job is completed.
Datum out_of_table(Datum json) {
    auto *value = reinterpret_cast<varlena *>(DatumGetPointer(json));
    return VARATT_IS_EXTERNAL(value) ? PointerGetDatum(detoast_external_attr(value)) : json;
}

// Calls a function with one argument in the same way as a query calls it. Sets *none if the function returned NULL or
// does not return jsonb.
Datum call_function(Oid function, Datum argument, bool returns_json, bool *none) {
    FmgrInfo info;
    PgStat_FunctionCallUsage usage;
    fmgr_info_cxt(function, &info, CurrentMemoryContext);
    InvokeFunctionExecuteHook(function);
    LOCAL_FCINFO(fcinfo, 1);
    InitFunctionCallInfoData(*fcinfo, &info, 1, InvalidOid, nullptr, nullptr);
    fcinfo->args[0].value = argument;
    fcinfo->args[0].isnull = false;
    PushActiveSnapshot(GetTransactionSnapshot());
    pgstat_init_function_usage(fcinfo, &usage);
    const Datum returned = FunctionCallInvoke(fcinfo);
    pgstat_end_function_usage(&usage, true);
    *none = !returns_json || fcinfo->isnull;
    const Datum result = *none ? Datum(0) : out_of_table(returned);
    PopActiveSnapshot();
    return result;
}

// Executes CALL as if a client had sent it as a top-level statement, because the procedure might commit. The parse tree
// and the plan are allocated in the memory of the job, which outlives the transactions of the procedure.
void call_procedure(const char *name, Datum argument, MemoryContext memory) {
    MemoryContextSwitchTo(memory);
    const char *sql = psprintf("CALL %s($1)", name);
    const Oid types[] = {JSONBOID};
    PushActiveSnapshot(GetTransactionSnapshot());
    auto *raw = linitial_node(RawStmt, pg_parse_query(sql));
    List *queries = pg_analyze_and_rewrite_fixedparams(raw, sql, types, 1, nullptr);
    List *plans = pg_plan_queries(queries, sql, CURSOR_OPT_PARALLEL_OK, nullptr);
    PopActiveSnapshot();
    ParamListInfo params = makeParamList(1);
    params->params[0] = {argument, false, PARAM_FLAG_CONST, JSONBOID};
    Portal portal = CreatePortal("", true, true);
    portal->visible = false;
    PortalDefineQuery(portal, nullptr, sql, CMDTAG_CALL, plans, nullptr);
    PortalStart(portal, params, 0, InvalidSnapshot);
    run_portal(portal);
    PortalDrop(portal, false);
    // Switches to a memory context that still exists. The previous memory context might be gone, because the procedure
    // might have ended its transaction.
    MemoryContextSwitchTo(CurTransactionContext);
}

void call_handler(const KnownHandler &known, const Turn &turn, Datum argument) {
    bool none = true;
    Datum result = Datum(0);
    if (StatementTimeout > 0) enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
    if (known.target.is_procedure)
        call_procedure(known.handler.function, argument, turn.memory);
    else
        result = call_function(known.target.function, argument, known.target.returns_json, &none);
    // The handler might have changed statement_timeout, so StatementTimeout does not show whether the timeout is
    // active.
    if (get_timeout_active(STATEMENT_TIMEOUT)) disable_timeout(STATEMENT_TIMEOUT, false);
    CommandCounterIncrement();
    // A procedure might have made its last transaction read-only, but completing the job requires a write. A
    // serializable transaction stays read-only, because the server's serialization checks rely on this.
    if (known.target.is_procedure && !IsolationIsSerializable()) XactReadOnly = false;
    PreventCommandIfReadOnly("the completion of a job");
    under_snapshot([&] { complete_handled(turn.job, !none, result); });
}

void show_activity(const Handler &handler, const HandlerJob &job) {
    pgstat_report_activity(STATE_RUNNING,
                           psprintf("%s: job %lld of queue \"%.*s\"", handler.function, static_cast<long long>(job.id),
                                    static_cast<int>(handler.queue.size()), handler.queue.data()));
}

void claim_next(Work *work) {
    // Checks the deferred constraints now, before the claim of the next job. Otherwise, a constraint that this job
    // violates would fail at the commit, together with that claim.
    check_deferred_constraints();
    work->stage = Stage::Claim;
    work->claimed = under_snapshot([&] {
        // Looks up the handler again, because it might have been changed while it was running.
        const KnownHandler *again = handler_of(*work->turn);
        return is_good(again) && claim_for_handler(*again, work->next->memory, &work->next->job);
    });
}

// Runs step 2 of the list at the top of this file: calls the handler, completes the job, and claims the next job.
void handle(Work *work) {
    work->stage = Stage::Handler;
    const KnownHandler *known = under_snapshot([&] { return handler_of(*work->turn); });
    work->unable = !is_good(known);
    if (work->unable) {
        under_snapshot([&] { give_back_handled(work->turn->job); });
        return;
    }
    // If the executor was asked to exit in the meantime, it exits here, before it has done anything for the job.
    CHECK_FOR_INTERRUPTS();
    lease_has_begun();
    begin_handled(&work->turn->job);
    show_activity(known->handler, work->turn->job);
    // The argument must outlive the transactions of a procedure, so it is allocated in the memory of the job.
    MemoryContext outer = MemoryContextSwitchTo(work->turn->memory);
    const Datum argument = argument_of(work->turn->job);
    MemoryContextSwitchTo(outer);
    call_handler(*known, *work->turn, argument);
    // Does not claim another job in the transaction that completes the job of a procedure, because an error in the
    // claim would roll back the completion, and the retried job would repeat what the procedure has committed.
    if (work->next != nullptr && !known->target.is_procedure && !turn_is_over()) claim_next(work);
    work->stage = Stage::Commit;
}

char *describe(const ErrorData *error) {
    const char *message = error->message != nullptr ? error->message : "unknown error";
    const char *lead = psprintf("%s: %s", unpack_sql_state(error->sqlerrcode), message);
    return error->context == nullptr ? pstrdup(lead) : psprintf("%s\nCONTEXT:  %s", lead, error->context);
}

// Records the error of the attempt. Returns false if the error cannot be recorded; the lease then ends with the
// process.
bool record_failure(const Turn &turn, const ErrorData *error) {
    const char *text = describe(error);
    // Also checks the executor's slot for an interrupt, because the handler might have caught or replaced the original
    // error.
    const bool stopped =
        error->sqlerrcode == ERRCODE_QUERY_CANCELED || own_executor_slot()->interrupted == turn.job.lease;
    ereport(DEBUG1,
            (errmsg_internal("jobq executor: job %lld has failed: %s", static_cast<long long>(turn.job.id), text)));
    for (int tries = 1; tries <= kTries; tries++) {
        const ErrorData *failure = in_transaction(turn.memory, [&] {
            under_snapshot([&] {
                // If the handler cannot be called now, the attempt does not count, because the reason why it cannot be
                // called might have caused the error.
                if (!is_good(handler_of(turn)))
                    give_back_handled(turn.job);
                else if (!fail_handled(turn.job, error, text, stopped))
                    ereport(LOG, (errmsg("jobq executor: the handler of job %lld failed after its lease was lost: %s",
                                         static_cast<long long>(turn.job.id), text)));
            });
        });
        if (failure == nullptr) return true;
        ereport(LOG, (errmsg("jobq executor: could not record that job %lld failed: %s",
                             static_cast<long long>(turn.job.id), failure->message)));
        QueryCancelPending = false;
        wait_for_latch(tries * core::kSecond, WaitEvent::ExecutorRetry);
        CHECK_FOR_INTERRUPTS();
    }
    return false;
}

// Applies the settings of the handler, if it has any. Returns false if the settings cannot be applied.
bool prepare_session(const Turn &turn) {
    if (!turn.job.has_settings) return true;
    const ErrorData *error = in_transaction(turn.memory, [&] {
        const KnownHandler *known = under_snapshot([&] { return handler_of(turn); });
        if (is_good(known)) apply_settings(known->handler);
    });
    if (error == nullptr) return true;
    ereport(LOG, (errmsg("jobq executor: could not apply the settings of a handler: %s", error->message)));
    return false;
}

// Resets everything that the job has left in the session. Returns false if that fails; the session must then not run
// any other job.
bool clear_session(const Turn &turn) {
    const ErrorData *error = in_transaction(turn.memory, [] { discard_session(); });
    if (error == nullptr) return true;
    ereport(LOG, (errmsg("jobq executor: could not reset the session: %s", error->message)));
    return false;
}

void give_back(const Turn &turn) {
    const ErrorData *error = in_transaction(turn.memory, [&] { under_snapshot([&] { give_back_handled(turn.job); }); });
    if (error == nullptr) end_lease_of_executor();
}

void clear(Turn *turn) {
    if (turn->memory == nullptr)
        turn->memory = AllocSetContextCreate(TopMemoryContext, "jobq handled job", ALLOCSET_DEFAULT_SIZES);
    MemoryContextReset(turn->memory);
    turn->job = {};
}

// Runs the handler and completes the job in one transaction. If the transaction fails, records the error in another
// transaction. Sets *claimed if `other` now holds the next job. Returns false if the session must end.
bool run_and_end(Turn *turn, Turn *other, bool claims_next, bool *claimed) {
    Work work = {.turn = turn, .next = claims_next && !claims_apart ? other : nullptr};
    clear(other);
    const ErrorData *error = in_transaction(turn->memory, [&] { handle(&work); });
    begin_handled(nullptr);
    *claimed = error == nullptr && work.claimed;
    if (error == nullptr) {
        begin_next_lease();
        return true;
    }
    drop_next_lease();
    if (work.stage == Stage::Claim && error->sqlerrcode != ERRCODE_QUERY_CANCELED) {
        // The transaction was rolled back, but the executor still holds the job, so it can run the job again without a
        // new claim.
        claims_apart = true;
        return run_and_end(turn, other, false, claimed);
    }
    // Resets the settings that a procedure has committed, because they must not prevent the error from being recorded.
    // If the reset fails, the settings are still in effect when the error is recorded.
    const ErrorData *failure = in_transaction(turn->memory, [] { reset_settings(); });
    if (failure != nullptr)
        ereport(LOG,
                (errmsg("jobq executor: could not reset the settings that a handler changed: %s", failure->message)));
    if (!record_failure(*turn, error)) return false;
    end_lease_of_executor();
    return true;
}

bool run_claimed(Turn *turn, Turn *other, bool claims_next, bool *claimed) {
    *claimed = false;
    if (!prepare_session(*turn)) {
        give_back(*turn);
        return false;
    }
    if (!run_and_end(turn, other, claims_next, claimed)) return false;
    if (clear_session(*turn)) return true;
    if (*claimed) give_back(*other);
    return false;
}

// Logs a failed claim, unless the previous failed claim had the same SQLSTATE.
void report_failed_claim(const ErrorData *error) {
    static int last_reported = 0;
    if (error->sqlerrcode == last_reported) return;
    last_reported = error->sqlerrcode;
    ereport(LOG, (errmsg("jobq executor: could not claim a job: %s", error->message)));
}

// Claims a job for the handler whose turn it is, or for the next handler that has a claimable job and is allowed to run
// one more job.
bool claim_one(Turn *turn, bool *leave) {
    const KnownHandlers known = known_handlers();
    *leave = known.count == 0;
    bool claimed = false;
    for (int i = 0; i < known.count && !claimed; i++) {
        const KnownHandler &one = known.items[next_handler % known.count];
        // Advances to the next handler even if the claim fails, so that a handler whose claims fail does not block the
        // other handlers.
        next_handler = (next_handler + 1) % known.count;
        if (one.problem.sqlstate != 0 || !take_handler_place(one.handler.hash, one.handler.max_executors)) continue;
        claimed = claim_for_handler(one, turn->memory, &turn->job);
    }
    return claimed;
}

}  // namespace

Served serve_handlers(bool (*may_go_on)()) {
    Served served = {0, false};
    Turn *turn = &turns[0], *other = &turns[1];
    clear(turn);
    bool claimed = false, none = false;
    const ErrorData *error =
        in_transaction(turn->memory, [&] { claimed = under_snapshot([&] { return claim_one(turn, &none); }); });
    served.leave = error == nullptr && none;
    if (error != nullptr) {
        drop_next_lease();
        report_failed_claim(error);
        claimed = false;
        forget_handlers();
    }
    if (claimed) {
        turn_began = GetCurrentTimestamp();
        begin_next_lease();
        // Makes the background worker supervise the executors, because there might be more jobs than one executor can
        // run.
        call_supervisor_if_wanted();
    }
    while (claimed && !served.leave) {
        served.jobs++;
        served.leave = !run_claimed(turn, other, may_go_on(), &claimed);
        std::swap(turn, other);
    }
    take_handler_place(0, 0);
    return served;
}

}  // namespace jobq
