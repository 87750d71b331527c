// A database whose jobs have all finished has no worker. Jobs that come into it while triggers are disabled, as
// pg_restore --disable-triggers brings them, tell nobody; the command that enables the triggers again asks for a round,
// which looks at what has come (leases/rescue_index.h). Nor can a trigger say then that a dump is being restored
// (duties/dump_restore.h): the command that disables them does. See triggers_changed.h.
#include "compat/pg.h"

#include "bgw/triggers_changed.h"
#include "compat/catalog_row.h"
#include "duties/dump_restore.h"
#include "job/transaction_log.h"

extern "C" {
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace jobq {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

bool is_jobs_table(Oid table) {
    const Oid schema = get_namespace_oid("jobq", true);
    return OidIsValid(table) && OidIsValid(schema) && get_relname_relid("jobs", schema) == table;
}

// The table jobq.jobs, if the statement switches triggers of it; else InvalidOid.
Oid switched_jobs_table(Node *statement) {
    if (!IsA(statement, AlterTableStmt)) return InvalidOid;
    const auto *alter = reinterpret_cast<const AlterTableStmt *>(statement);
    bool any = false;
    ListCell *cell;
    foreach (cell, alter->cmds) {
        const AlterTableType type = lfirst_node(AlterTableCmd, cell)->subtype;
        any |= type >= AT_EnableTrig && type <= AT_DisableTrigUser;
    }
    if (!any) return InvalidOid;
    const Oid table = RangeVarGetRelid(alter->relation, NoLock, true);
    return is_jobs_table(table) ? table : InvalidOid;
}

void on_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
                ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion) {
    // Asked first: afterwards the statement's memory may be gone.
    const Oid table = switched_jobs_table(planned->utilityStmt);
    // Scripts of extensions have check_function_bodies off, too.
    if (OidIsValid(table) && !creating_extension &&
        restores(catalog_value(RELOID, table, &FormData_pg_class::relowner, InvalidOid)))
        note_restore();
    const auto next = previous_hook != nullptr ? previous_hook : standard_ProcessUtility;
    next(planned, query, read_only_tree, context, params, environment, dest, completion);
    if (OidIsValid(table)) log_due(GetCurrentTimestamp());
}

}  // namespace

void install_triggers_hook() {
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
}

}  // namespace jobq
