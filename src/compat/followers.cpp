// See followers.h.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/followers.h"

#include <algorithm>
#include <initializer_list>

extern "C" {
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

bool is_enabled(const Trigger &trigger) { return trigger.tgenabled != TRIGGER_DISABLED; }

// Returns whether the trigger changes referencing rows (CASCADE, SET NULL, or SET DEFAULT) after this kind of change to
// a referenced row.
bool changes_followers(const Trigger &trigger, RowChange change) {
    if (!is_enabled(trigger) || !OidIsValid(trigger.tgconstrrelid)) return false;
    switch (trigger.tgfoid) {
        case F_RI_FKEY_CASCADE_DEL:
        case F_RI_FKEY_SETNULL_DEL:
        case F_RI_FKEY_SETDEFAULT_DEL:
            return change == RowChange::Delete;
        case F_RI_FKEY_CASCADE_UPD:
        case F_RI_FKEY_SETNULL_UPD:
        case F_RI_FKEY_SETDEFAULT_UPD:
            return change == RowChange::Update;
        default:
            return false;
    }
}

bool changes_followers(const Trigger &trigger) {
    return changes_followers(trigger, RowChange::Delete) || changes_followers(trigger, RowChange::Update);
}

bool is_primary_key(Oid index) { return catalog_value(INDEXRELID, index, &FormData_pg_index::indisprimary, false); }

// Returns whether the trigger can change referencing rows when a statement of jobq makes this kind of change to a
// referenced row. If the rows reference a primary key, only a deletion can change them, because jobq never updates
// primary keys.
bool changes_followers_of_ours(const Trigger &trigger, RowChange change) {
    return changes_followers(trigger, change) &&
           (change == RowChange::Delete || !is_primary_key(trigger.tgconstrindid));
}

bool fires_after_change(const Trigger &trigger) {
    return !trigger.tgisinternal && is_enabled(trigger) && TRIGGER_FOR_AFTER(trigger.tgtype);
}

Oid owner_of_function(Oid function) {
    const Oid owner = catalog_value(PROCOID, function, &FormData_pg_proc::proowner, InvalidOid);
    if (!OidIsValid(owner)) elog(ERROR, "jobq: cache lookup failed for function %u", function);
    return owner;
}

// Returns whether the trigger checks a deferrable unique constraint whose index has expressions or a predicate. The
// check evaluates these after the change.
bool evaluates_after_change(const Trigger &trigger) {
    if (trigger.tgfoid != F_UNIQUE_KEY_RECHECK || !is_enabled(trigger)) return false;
    Relation index = index_open(trigger.tgconstrindid, AccessShareLock);
    const bool evaluates = RelationGetIndexExpressions(index) != NIL || RelationGetIndexPredicate(index) != NIL;
    index_close(index, AccessShareLock);
    return evaluates;
}

[[noreturn]] void untrusted(Relation follower, const char *what) {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("%s of table \"%s.%s\" would run with the privileges of the owner of jobq.jobs", what,
                get_namespace_name(RelationGetNamespace(follower)), RelationGetRelationName(follower)),
         errdetail("The table is owned by role \"%s\" and has a foreign key to a table of jobq.",
                   GetUserNameFromId(follower->rd_rel->relowner, false)),
         errhint(
             "Transfer the ownership of the table and of its functions to a role with the privileges of the owner of "
             "jobq.jobs, or drop the foreign key."),
         errtable(follower)));
    pg_unreachable();
}

// Raises an error if a change to `follower` can run code that is controlled by a role without the privileges of the
// role `owner`. The owner of `follower` controls its triggers, rules, and index expressions. If this owner has the
// privileges, rejects only triggers whose functions belong to a role without the privileges. Otherwise, rejects all
// triggers, rules, and index expressions that run after the change.
void require_trusted_table(Relation follower, const TriggerDesc *triggers, Oid owner) {
    const bool trusted = has_privs_of_role(follower->rd_rel->relowner, owner);
    if (!trusted && follower->rd_rules != nullptr) untrusted(follower, "a rule");
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (fires_after_change(trigger) && !(trusted && has_privs_of_role(owner_of_function(trigger.tgfoid), owner)))
            untrusted(follower, psprintf("trigger \"%s\"", trigger.tgname));
        if (!trusted && evaluates_after_change(trigger))
            untrusted(follower,
                      psprintf("the deferrable constraint with index \"%s\"", get_rel_name(trigger.tgconstrindid)));
    }
}

// Returns the table and its partitions. Foreign keys do not apply to other inheritance children.
List *partitions_of(Oid table) {
    if (get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
        return find_all_inheritors(table, RowExclusiveLock, nullptr);
    return list_make1_oid(table);
}

void require_trusted(const TriggerDesc *triggers, Oid owner, List **seen);

// Checks `table` and its partitions, and locks them in the mode that a change to their rows requires.
void require_trusted_follower(Oid table, Oid owner, List **seen) {
    ListCell *cell;
    foreach (cell, partitions_of(table)) {
        const Oid id = lfirst_oid(cell);
        if (list_member_oid(*seen, id)) continue;
        *seen = lappend_oid(*seen, id);
        Relation follower = table_open(id, RowExclusiveLock);
        const TriggerDesc *its_triggers = CopyTriggerDesc(follower->trigdesc);
        require_trusted_table(follower, its_triggers, owner);
        require_trusted(its_triggers, owner, seen);
        table_close(follower, NoLock);
    }
}

// Checks the followers of a table, including followers of followers. `triggers` contains the triggers of the table. It
// must be a copy, because a catalog lookup can rebuild the relation's cache entry, which contains the original. `seen`
// lists the tables that have already been checked.
void require_trusted(const TriggerDesc *triggers, Oid owner, List **seen) {
    check_stack_depth();
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (changes_followers(triggers->triggers[i]))
            require_trusted_follower(triggers->triggers[i].tgconstrrelid, owner, seen);
}

bool changes(const ModifyTable &part, RowChange change) {
    if (part.operation == CMD_DELETE) return change == RowChange::Delete;
    if (part.operation == CMD_INSERT) return change == RowChange::Update && part.onConflictAction == ONCONFLICT_UPDATE;
    return part.operation == CMD_MERGE || change == RowChange::Update;
}

void require_trusted_part(const PlannedStmt &plan, const void *node) {
    if (node == nullptr || !IsA(node, ModifyTable)) return;
    const ModifyTable &part = *static_cast<const ModifyTable *>(node);
    ListCell *cell;
    foreach (cell, part.resultRelations) {
        Relation table = table_open(rt_fetch(lfirst_int(cell), plan.rtable)->relid, NoLock);
        for (const RowChange change : {RowChange::Delete, RowChange::Update})
            if (changes(part, change)) require_trusted_followers(table, change, GetUserId());
        table_close(table, NoLock);
    }
}

}  // namespace

void require_trusted_followers(Relation table, RowChange change, Oid role) {
    const auto is_followed = [change](const Trigger &trigger) { return changes_followers(trigger, change); };
    TriggerDesc *known = table->trigdesc;
    if (known == nullptr || std::none_of(known->triggers, known->triggers + known->numtriggers, is_followed)) return;
    const TriggerDesc *triggers = CopyTriggerDesc(known);
    List *seen = NIL;
    for (int i = 0; i < triggers->numtriggers; i++)
        if (changes_followers_of_ours(triggers->triggers[i], change))
            require_trusted_follower(triggers->triggers[i].tgconstrrelid, role, &seen);
    list_free(seen);
}

void require_trusted_followers(const PlannedStmt &plan) {
    require_trusted_part(plan, plan.planTree);
    ListCell *cell;
    foreach (cell, plan.subplans) require_trusted_part(plan, lfirst(cell));
}

}  // namespace jobq
