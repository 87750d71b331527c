// See references.h.
#include "pg/pg.h"

#include "store/references.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"
}

namespace jobq {

namespace {

bool is_enabled(const Trigger &trigger) { return trigger.tgenabled != TRIGGER_DISABLED; }

// What the server attaches to the table that is referenced.
bool changes_followers(const Trigger &trigger) {
    switch (trigger.tgfoid) {
        case F_RI_FKEY_CASCADE_DEL:
        case F_RI_FKEY_SETNULL_DEL:
        case F_RI_FKEY_SETDEFAULT_DEL:
        case F_RI_FKEY_CASCADE_UPD:
        case F_RI_FKEY_SETNULL_UPD:
        case F_RI_FKEY_SETDEFAULT_UPD:
            return is_enabled(trigger) && OidIsValid(trigger.tgconstrrelid);
        default:
            return false;
    }
}

bool fires_after_change(const Trigger &trigger) {
    return !trigger.tgisinternal && is_enabled(trigger) && TRIGGER_FOR_AFTER(trigger.tgtype);
}

Oid owner_of_function(Oid function) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "jobq: cache lookup failed for function %u", function);
    const Oid owner = reinterpret_cast<FormData_pg_proc *>(GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return owner;
}

// A deferrable constraint is checked after the change, too, with the expressions of its index.
bool evaluates_after_change(const Trigger &trigger) {
    if (trigger.tgfoid != F_UNIQUE_KEY_RECHECK || !is_enabled(trigger)) return false;
    Relation index = index_open(trigger.tgconstrindid, AccessShareLock);
    const bool evaluates = RelationGetIndexExpressions(index) != NIL || RelationGetIndexPredicate(index) != NIL;
    index_close(index, AccessShareLock);
    return evaluates;
}

[[noreturn]] void untrusted(Relation follower, const char *what) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("%s of table %s.%s would run with the rights of the owner of jobq.jobs", what,
                           get_namespace_name(RelationGetNamespace(follower)), RelationGetRelationName(follower)),
                    errdetail("The table follows jobq's by a foreign key, and belongs to \"%s\".",
                              GetUserNameFromId(follower->rd_rel->relowner, false)),
                    errhint("Give the table and its functions to a role with the rights of the owner of jobq.jobs, or "
                            "drop what would run, or the foreign key."),
                    errtable(follower)));
    pg_unreachable();
}

// Of a table whose owner has the owner's rights anyway what belongs to others counts; of any other table everything
// does: whoever owns it says what its triggers are, which rows move to which partition, and what else rules change.
void require_trusted_table(Relation follower, const TriggerDesc *triggers, Oid owner) {
    const bool trusted = has_privs_of_role(follower->rd_rel->relowner, owner);
    if (!trusted && follower->rd_rules != nullptr) untrusted(follower, "what follows from a rule");
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (fires_after_change(trigger) && !(trusted && has_privs_of_role(owner_of_function(trigger.tgfoid), owner)))
            untrusted(follower, psprintf("trigger \"%s\"", trigger.tgname));
        if (!trusted && evaluates_after_change(trigger))
            untrusted(follower, psprintf("index \"%s\", which a deferrable constraint uses,",
                                         get_rel_name(trigger.tgconstrindid)));
    }
}

// The table and its partitions; other children are not followed.
List *partitions_of(Oid table) {
    if (get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
        return find_all_inheritors(table, RowExclusiveLock, nullptr);
    return list_make1_oid(table);
}

// `triggers`: a copy, since what is looked up meanwhile may build the relation's entry in the cache anew. `seen`: the
// tables that have been looked at. The locks are those that the change itself takes.
void require_trusted(const TriggerDesc *triggers, Oid owner, List **seen) {
    check_stack_depth();
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        if (!changes_followers(triggers->triggers[i])) continue;
        ListCell *cell;
        foreach (cell, partitions_of(triggers->triggers[i].tgconstrrelid)) {
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
}

bool followed(const TriggerDesc *triggers) {
    return triggers != nullptr && std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                                              [](const Trigger &trigger) { return changes_followers(trigger); });
}

// Tables with a key, whose rows go with jobs and queues.
constexpr const char *kFollowed[] = {"jobs", "dependencies", "queue_settings", "limit_settings"};

}  // namespace

void require_trusted_followers() {
    const Oid schema = get_namespace_oid("jobq", false);
    for (const char *name : kFollowed) {
        const Oid id = get_relname_relid(name, schema);
        Relation table = table_open(id, RowExclusiveLock);
        if (followed(table->trigdesc)) {
            List *seen = list_make1_oid(id);
            require_trusted(CopyTriggerDesc(table->trigdesc), table->rd_rel->relowner, &seen);
            list_free(seen);
        }
        table_close(table, NoLock);
    }
}

}  // namespace jobq
