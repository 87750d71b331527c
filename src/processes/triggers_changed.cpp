// See triggers_changed.h. No worker runs in a database whose jobs have all finished, and no worker is started when jobs
// are inserted while the triggers are disabled, for example by pg_restore --disable-triggers. So the command that
// enables the triggers again requests a round, which finds these jobs (leases/unindexed_search.h). A disabled trigger
// cannot mark the session as restoring a dump (duties/dump_restore.h), so the command that disables the triggers marks
// the session.
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

// Returns the table jobq.jobs if the statement enables or disables its triggers, and InvalidOid otherwise.
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
    // Excludes extension scripts, because they also run with check_function_bodies = off, which otherwise indicates a
    // restore.
    if (OidIsValid(table) && !creating_extension &&
        restores(catalog_value(RELOID, table, &FormData_pg_class::relowner, InvalidOid)))
        note_restore();
    call.run();
    if (!OidIsValid(table)) return;
    log_due(GetCurrentTimestamp());
    // Requests a recount, because the counters do not include jobs that were inserted while the triggers were disabled.
    recount_at_commit();
}

}  // namespace

void install_triggers_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
