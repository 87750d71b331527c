// See inheritance.h.
#include "compat/pg.h"

#include "compat/utility_hook.h"
#include "row/inheritance.h"
#include "row/owner.h"

extern "C" {
#include "catalog/pg_inherits.h"
#include "nodes/parsenodes.h"
}

namespace jobq {

namespace {

[[noreturn]] void refuse(const char *detail, const char *hint) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("table \"jobq.jobs\" supports neither inheritance nor partitioning"),
                    detail == nullptr ? 0 : errdetail("%s", detail), errhint("%s", hint)));
    pg_unreachable();
}

bool is_jobs_table(const RangeVar *name) {
    if (name == nullptr || strcmp(name->relname, "jobs") != 0) return false;
    const Oid table = RangeVarGetRelid(name, NoLock, true);
    return OidIsValid(table) && get_rel_namespace(table) == get_namespace_oid("jobq", true) && is_own_table(table);
}

bool names_jobs_as_parent(const CreateStmt *create) {
    ListCell *cell;
    foreach (cell, create->inhRelations)
        if (is_jobs_table(lfirst_node(RangeVar, cell))) return true;
    return false;
}

bool alters_inheritance_of_jobs(const AlterTableStmt *alter) {
    ListCell *cell;
    foreach (cell, alter->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (command->subtype == AT_AddInherit && is_jobs_table(reinterpret_cast<RangeVar *>(command->def))) return true;
        if (command->subtype == AT_AttachPartition &&
            is_jobs_table(reinterpret_cast<PartitionCmd *>(command->def)->name))
            return true;
    }
    return false;
}

void around_statement(const UtilityCall &call) {
    const Node *statement = call.statement();
    // The cast also works for CREATE FOREIGN TABLE, because a CreateForeignTableStmt begins with a CreateStmt.
    if (((IsA(statement, CreateStmt) || IsA(statement, CreateForeignTableStmt)) &&
         names_jobs_as_parent(reinterpret_cast<const CreateStmt *>(statement))) ||
        (IsA(statement, AlterTableStmt) &&
         alters_inheritance_of_jobs(reinterpret_cast<const AlterTableStmt *>(statement))))
        refuse(nullptr, "Use CREATE TABLE ... (LIKE jobq.jobs) to create a table with the same columns.");
    call.run();
}

}  // namespace

void require_no_inheritance(Relation jobs) {
    if (jobs->rd_rel->relispartition)
        refuse("The table is a partition.", "Run ALTER TABLE ... DETACH PARTITION jobq.jobs.");
    if (!jobs->rd_rel->relhassubclass) return;
    const List *children = find_inheritance_children(RelationGetRelid(jobs), NoLock);
    if (children == NIL) return;
    const Oid id = linitial_oid(children);
    const char *child = quote_qualified_identifier(get_namespace_name(get_rel_namespace(id)), get_rel_name(id));
    refuse(psprintf("Table %s inherits from jobq.jobs.", child),
           psprintf("Run ALTER TABLE %s NO INHERIT jobq.jobs. That table keeps its rows; insert them into jobq.jobs if "
                    "these jobs must run.",
                    child));
}

void install_inheritance_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
