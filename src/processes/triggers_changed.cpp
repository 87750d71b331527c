// A database whose jobs have all finished has no worker. Jobs that come into it while triggers are disabled, as
// pg_restore --disable-triggers brings them, tell nobody; the command that enables the triggers again asks for a round,
// which looks at what has come (leases/rescue_index.h). Nor can a trigger say then that a dump is being restored
// (duties/dump_restore.h): the command that disables them does. See triggers_changed.h.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/utility_hook.h"
#include "duties/dump_restore.h"
#include "log/transaction_log.h"
#include "processes/triggers_changed.h"

extern "C" {
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
}

namespace jobq {

namespace {

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

void around_statement(const UtilityCall &call) {
    const Oid table = switched_jobs_table(call.statement());
    // Scripts of extensions have check_function_bodies off, too.
    if (OidIsValid(table) && !creating_extension &&
        restores(catalog_value(RELOID, table, &FormData_pg_class::relowner, InvalidOid)))
        note_restore();
    call.run();
    if (!OidIsValid(table)) return;
    log_due(GetCurrentTimestamp());
    // What has come while they were disabled, nobody has counted.
    recount_at_commit();
}

}  // namespace

void install_triggers_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
