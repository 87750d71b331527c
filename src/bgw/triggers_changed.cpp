// A database whose jobs have all finished has no worker. Jobs that come into it while triggers are disabled, as
// pg_restore --disable-triggers brings them, tell nobody; the command that enables the triggers again asks for a round,
// which looks at what has come (leases/rescue_index.h). See triggers_changed.h.
#include "compat/pg.h"

#include "bgw/triggers_changed.h"
#include "job/transaction_log.h"

extern "C" {
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace jobq {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

bool is_jobs_table(const RangeVar *name) {
    const Oid schema = get_namespace_oid("jobq", true);
    const Oid jobs = OidIsValid(schema) ? get_relname_relid("jobs", schema) : InvalidOid;
    return OidIsValid(jobs) && RangeVarGetRelid(name, NoLock, true) == jobs;
}

bool switches_triggers(Node *statement) {
    if (!IsA(statement, AlterTableStmt)) return false;
    const auto *alter = reinterpret_cast<const AlterTableStmt *>(statement);
    bool any = false;
    ListCell *cell;
    foreach (cell, alter->cmds) {
        const AlterTableType type = lfirst_node(AlterTableCmd, cell)->subtype;
        any |= type >= AT_EnableTrig && type <= AT_DisableTrigUser;
    }
    return any && is_jobs_table(alter->relation);
}

void on_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
                ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion) {
    // Asked first: afterwards the statement's memory may be gone.
    const bool switches = switches_triggers(planned->utilityStmt);
    const auto next = previous_hook != nullptr ? previous_hook : standard_ProcessUtility;
    next(planned, query, read_only_tree, context, params, environment, dest, completion);
    if (switches) log_due(GetCurrentTimestamp());
}

}  // namespace

void install_triggers_hook() {
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
}

}  // namespace jobq
