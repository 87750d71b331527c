// See drop_extension.h. The hook is needed because no other code notifies the worker when the tables and triggers of
// the extension are dropped.
#include "compat/pg.h"

#include "compat/utility_hook.h"
#include "log/transaction_log.h"
#include "processes/drop_extension.h"
#include "processes/recount.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

extern "C" {
#include "catalog/pg_extension_d.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
}

namespace jobq {

namespace {

bool drops_extension(Node *statement) {
    return IsA(statement, DropStmt) && reinterpret_cast<DropStmt *>(statement)->removeType == OBJECT_EXTENSION;
}

// Returns whether the statement drops jobq and the user is allowed to drop it. Without the check of the user, any user
// could stop a count of jobq.jobs that is in progress.
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

// Stops the count of jobq.jobs if one is in progress. Otherwise, DROP EXTENSION would wait, possibly for seconds, for
// the lock that the counting process holds.
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

void around_statement(const UtilityCall &call) {
    const bool drops = drops_extension(call.statement());
    const bool may_drop = drops || IsA(call.statement(), DropOwnedStmt);
    if (drops && may_drop_jobq(call.statement())) stop_recount_here();
    call.run();
    if (may_drop) look_at_commit();
}

}  // namespace

void install_drop_extension_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
