// See transaction.h.
#include "compat/pg.h"

#include "compat/transaction.h"

#include <algorithm>

extern "C" {
#include "jit/jit.h"
#include "utils/resowner.h"
}

namespace jobq {

namespace {

const TransactionPart *all_parts = nullptr;
int first_part[kPhases + 1];

// These variables are true from the end of a transaction or savepoint until all its locks have been released.
bool committed = false, aborted = false, savepoint_aborted = false;

void enter(Phase phase) {
    const int number = static_cast<int>(phase);
    for (int i = first_part[number]; i < first_part[number + 1]; i++) all_parts[i].take_part();
}

// The server sends XACT_EVENT_COMMIT after ProcArrayEndTransaction(), so at that point other sessions already see the
// changes.
void at_transaction_event(XactEvent event, void *) {
    switch (event) {
        case XACT_EVENT_PRE_COMMIT:
            return enter(Phase::BeforeCommit);
        case XACT_EVENT_PRE_PREPARE:
            return enter(Phase::BeforePrepare);
        case XACT_EVENT_PREPARE:
            return enter(Phase::Prepare);
        case XACT_EVENT_COMMIT:
            committed = true;
            return enter(Phase::Commit);
        case XACT_EVENT_ABORT:
            aborted = true;
            return enter(Phase::Abort);
        default:
            return;
    }
}

void at_subtransaction_event(SubXactEvent event, SubTransactionId, SubTransactionId, void *) {
    if (event == SUBXACT_EVENT_COMMIT_SUB) enter(Phase::SavepointCommit);
    if (event != SUBXACT_EVENT_ABORT_SUB) return;
    savepoint_aborted = true;
    enter(Phase::SavepointAbort);
}

// The server calls this function for each resource owner that it releases, including the resource owners of portals.
void after_release(ResourceReleasePhase phase, bool, bool is_top_level, void *) {
    if (phase != RESOURCE_RELEASE_AFTER_LOCKS) return;
    if (savepoint_aborted && !is_top_level) {
        savepoint_aborted = false;
        enter(Phase::AfterSavepointAbort);
    }
    if (!is_top_level) return;
    const bool has_committed = committed, has_aborted = aborted;
    committed = aborted = savepoint_aborted = false;
    if (has_committed) enter(Phase::AfterCommit);
    if (has_aborted) enter(Phase::AfterAbort);
}

}  // namespace

TimestampTz end_of_transaction() {
    return IsTransactionState() ? GetCurrentTimestamp() : GetCurrentTransactionStopTimestamp();
}

void abort_after_error() {
    AbortOutOfAnyTransaction();
    PortalErrorCleanup();
    if (MyReplicationSlot != nullptr) ReplicationSlotRelease();
    drop_temporary_slots();
    jit_reset_after_error();
}

void refuse_parallel_operation() {
    if (!IsInParallelMode()) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_STATE),
                    errmsg("jobq's functions cannot be called during a parallel operation"),
                    errhint("Declare the calling function as PARALLEL UNSAFE.")));
}

void check_deferred_constraints() {
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    // Inside a SECURITY DEFINER function or as_role(), switches to the role with whose privileges the commit would
    // check the constraints. If a check fails, the server restores the previous role. Since PostgreSQL 18, the switch
    // is not needed, because each constraint is checked as the role that changed the row.
    const bool borrowed = kServerMajor < 18 && (context & SECURITY_LOCAL_USERID_CHANGE) != 0;
    if (borrowed) SetUserIdAndSecContext(GetOuterUserId(), context);
    // Executes SET CONSTRAINTS ALL IMMEDIATE.
    ConstraintsSetStmt *all = makeNode(ConstraintsSetStmt);
    AfterTriggerSetState(all);
    if (borrowed) SetUserIdAndSecContext(user, context);
}

void take_part_in_transactions(const TransactionPart *parts, int count) {
    all_parts = parts;
    for (int i = 0; i <= kPhases; i++)
        first_part[i] = static_cast<int>(
            std::find_if(parts, parts + count,
                         [i](const TransactionPart &part) { return static_cast<int>(part.phase) >= i; }) -
            parts);
    RegisterXactCallback(at_transaction_event, nullptr);
    RegisterSubXactCallback(at_subtransaction_event, nullptr);
    RegisterResourceReleaseCallback(after_release, nullptr);
}

}  // namespace jobq
