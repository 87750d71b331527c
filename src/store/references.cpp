// See references.h.
#include "pg/pg.h"

#include "store/references.h"

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
    return !trigger.tgisinternal && is_enabled(trigger) && TRIGGER_FOR_AFTER(trigger.tgtype) &&
           (TRIGGER_FOR_DELETE(trigger.tgtype) || TRIGGER_FOR_UPDATE(trigger.tgtype));
}

Oid owner_of_function(Oid function) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "jobq: cache lookup failed for function %u", function);
    const Oid owner = reinterpret_cast<FormData_pg_proc *>(GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return owner;
}

void require_trusted_triggers(Relation follower, Oid owner) {
    const TriggerDesc *triggers = follower->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (!fires_after_change(trigger) || has_privs_of_role(owner_of_function(trigger.tgfoid), owner)) continue;
        ereport(
            ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("trigger \"%s\" of table %s.%s would run with the rights of the owner of jobq.jobs", trigger.tgname,
                    get_namespace_name(RelationGetNamespace(follower)), RelationGetRelationName(follower)),
             errdetail("The table follows jobq.jobs by a foreign key, and the trigger's function belongs to \"%s\".",
                       GetUserNameFromId(owner_of_function(trigger.tgfoid), false)),
             errhint("Give the function to the owner of jobq.jobs, or let the foreign key do nothing: ON DELETE NO "
                     "ACTION."),
             errtable(follower)));
    }
}

// `seen`: the tables that have been looked at. The locks are those that the change itself takes.
void require_trusted(Relation table, Oid owner, List **seen) {
    check_stack_depth();
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        if (!changes_followers(triggers->triggers[i])) continue;
        ListCell *cell;
        foreach (cell, find_all_inheritors(triggers->triggers[i].tgconstrrelid, RowExclusiveLock, nullptr)) {
            const Oid id = lfirst_oid(cell);
            if (list_member_oid(*seen, id)) continue;
            *seen = lappend_oid(*seen, id);
            Relation follower = table_open(id, NoLock);
            require_trusted_triggers(follower, owner);
            require_trusted(follower, owner, seen);
            table_close(follower, NoLock);
        }
    }
}

}  // namespace

void require_trusted_followers() {
    const Oid id = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    Relation jobs = table_open(id, RowExclusiveLock);
    List *seen = list_make1_oid(id);
    require_trusted(jobs, jobs->rd_rel->relowner, &seen);
    list_free(seen);
    table_close(jobs, NoLock);
}

}  // namespace jobq
