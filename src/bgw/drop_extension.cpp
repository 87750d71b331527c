// See drop_extension.h. What goes with the extension, its triggers too, publishes nothing.
#include "compat/pg.h"

#include "bgw/drop_extension.h"
#include "bgw/recount.h"
#include "job/transaction_log.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

extern "C" {
#include "catalog/pg_extension_d.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace jobq {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

bool drops_extension(Node *statement) {
    return IsA(statement, DropStmt) && reinterpret_cast<DropStmt *>(statement)->removeType == OBJECT_EXTENSION;
}

// Whether the server will do it: nobody else shall stop a count.
bool may_drop_jobq(Node *statement) {
    const List *names = reinterpret_cast<DropStmt *>(statement)->objects;
    ListCell *cell;
    foreach (cell, names) {
        const char *name = strVal(lfirst(cell));
        const Oid extension = get_extension_oid(name, true);
        if (strcmp(name, "jobq") == 0 && OidIsValid(extension) && pg_extension_ownercheck(extension, GetUserId()))
            return true;
    }
    return false;
}

// It holds a lock that DROP EXTENSION waits for, maybe for seconds.
void stop_recount_here() {
    if (!shared_memory_ready()) return;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const DatabaseState *db = find_database_state(MyDatabaseId);
    if (db != nullptr) stop_recount(db);
    LWLockRelease(database_states_lock());
}

void look_at_commit() {
    if (!shared_memory_ready()) return;
    const DatabaseState *db = find_database_state(MyDatabaseId);
    if (db != nullptr && db->extension == Presence::Present) log_due(GetCurrentTimestamp());
}

void on_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
                ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion) {
    // Asked first: afterwards the statement's memory may be gone.
    const bool drops = drops_extension(planned->utilityStmt);
    const bool may_drop = drops || IsA(planned->utilityStmt, DropOwnedStmt);
    if (drops && may_drop_jobq(planned->utilityStmt)) stop_recount_here();
    const auto next = previous_hook != nullptr ? previous_hook : standard_ProcessUtility;
    next(planned, query, read_only_tree, context, params, environment, dest, completion);
    if (may_drop) look_at_commit();
}

}  // namespace

void install_drop_extension_hook() {
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
}

}  // namespace jobq
