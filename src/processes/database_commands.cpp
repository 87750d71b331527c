// See database_commands.h. DROP DATABASE, ALTER DATABASE ... RENAME or SET TABLESPACE, and CREATE DATABASE ... TEMPLATE
// fail if a session is connected to the database. This hook makes the background worker leave before such a command,
// and keeps workers out of the database until the command has succeeded or failed. Otherwise an owner without superuser
// rights could not run these commands, because only a superuser may terminate the worker.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/latch.h"
#include "compat/utility_hook.h"
#include "log/transaction_log.h"
#include "processes/database_commands.h"
#include "processes/recount.h"
#include "shmem/database_state.h"
#include "shmem/executors.h"

extern "C" {
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
}

#include <csignal>

namespace jobq {

namespace {

// How long a worker may take to finish its batch and exit. After that, the worker is terminated, because it may be
// waiting for a lock.
constexpr core::Micros kPatience = 300000;
constexpr core::Micros kLongestWait = 2 * core::kSecond;
constexpr core::Micros kPoll = 5 * core::kMillisecond;

// The database that this session keeps workers out of.
DatabaseState *kept_out = nullptr;
bool exit_callback_registered = false;

struct Target {
    Oid database;  // InvalidOid: no worker is in the way
    bool dropped;
};

void let_workers_in() {
    DatabaseState *db = kept_out;
    if (db == nullptr) return;
    kept_out = nullptr;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->keep_out = db->keep_out - 1;
    LWLockRelease(database_states_lock());
    wake_launcher();
}

// Called at exit, in case the session is terminated in the middle of the command.
void let_workers_in_at_exit(int, Datum) { let_workers_in(); }

// Keeps workers out of the database. Returns false if it has no state and all states are taken, which means that no
// worker runs in that database.
bool keep_workers_out(Oid database) {
    if (!exit_callback_registered) {
        before_shmem_exit(let_workers_in_at_exit, Datum(0));
        exit_callback_registered = true;
    }
    for (;;) {
        DatabaseState *db = obtain_database_state(database);
        if (db == nullptr) return false;
        LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
        const bool still_ours = pg_atomic_read_u32(&db->database) == database;
        if (still_ours) {
            db->keep_out = db->keep_out + 1;
            stop_recount(db);
            kept_out = db;
            if (db->worker != nullptr) SetLatch(&db->worker->procLatch);
        }
        LWLockRelease(database_states_lock());
        if (still_ours) return true;
    }
}

// Waits until the worker has exited. Gives up after a while; the command then reports the sessions that are still
// connected.
void wait_until_gone() {
    const TimestampTz begin = GetCurrentTimestamp();
    bool terminated = false;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        const core::Micros waited = GetCurrentTimestamp() - begin;
        LWLockAcquire(database_states_lock(), LW_SHARED);
        const bool gone = kept_out->pid == 0 && !kept_out->starting && kept_out->recount_pid == 0;
        // The process cannot exit while this session holds the lock, so the pid still belongs to it.
        if (!gone && !terminated && waited > kPatience && kept_out->pid != 0) {
            kill(kept_out->pid, SIGTERM);
            terminated = true;
        }
        LWLockRelease(database_states_lock());
        const bool executors = send_executors_away(pg_atomic_read_u32(&kept_out->database), waited > kPatience);
        if ((gone && !executors) || waited > kLongestWait || waited < 0) return;
        wait_for_latch(kPoll, WaitEvent::DatabaseCommand);
    }
}

bool owns(Oid database) { return pg_database_ownercheck(database, GetUserId()); }

// Returns whether the user may copy the database. If not, the command will fail, so no worker has to leave for it.
bool may_copy(Oid database, bool is_template) {
    if (superuser()) return true;
    const bool creates = catalog_value(AUTHOID, GetUserId(), &FormData_pg_authid::rolcreatedb, false);
    return creates && (is_template || owns(database));
}

bool is_template_database(Oid database) {
    return catalog_value(DATABASEOID, database, &FormData_pg_database::datistemplate, false);
}

Target target_by_name(const char *name, bool dropped) {
    const Oid database = name != nullptr ? get_database_oid(name, true) : InvalidOid;
    // The server rejects each of these commands for the current database.
    const bool may = OidIsValid(database) && database != MyDatabaseId && owns(database);
    return {may ? database : InvalidOid, dropped};
}

DefElem *find_option(const List *options, const char *name) {
    ListCell *cell;
    foreach (cell, options) {
        auto *option = static_cast<DefElem *>(lfirst(cell));
        if (strcmp(option->defname, name) == 0) return option;
    }
    return nullptr;
}

Target copied_database(const CreatedbStmt *statement) {
    DefElem *option = find_option(statement->options, "template");
    const char *name = option != nullptr && option->arg != nullptr ? defGetString(option) : "template1";
    const Oid database = get_database_oid(name, true);
    if (!OidIsValid(database)) return {InvalidOid, false};
    const bool is_template = is_template_database(database);
    // No worker connects to a template, so CREATE DATABASE from a template usually needs no database state.
    if (is_template && find_database_state(database) == nullptr) return {InvalidOid, false};
    return {may_copy(database, is_template) ? database : InvalidOid, false};
}

// Returns the database that the command needs without sessions.
Target target_of(Node *statement) {
    switch (nodeTag(statement)) {
        case T_DropdbStmt:
            return target_by_name(reinterpret_cast<DropdbStmt *>(statement)->dbname, true);
        case T_RenameStmt: {
            const auto *rename = reinterpret_cast<RenameStmt *>(statement);
            if (rename->renameType != OBJECT_DATABASE) break;
            return target_by_name(rename->subname, false);
        }
        case T_AlterDatabaseStmt: {
            const auto *alter = reinterpret_cast<AlterDatabaseStmt *>(statement);
            if (find_option(alter->options, "tablespace") == nullptr) break;
            return target_by_name(alter->dbname, false);
        }
        case T_CreatedbStmt:
            return copied_database(reinterpret_cast<CreatedbStmt *>(statement));
        default:
            break;
    }
    return {InvalidOid, false};
}

bool changes_databases(Node *statement) {
    switch (nodeTag(statement)) {
        case T_DropdbStmt:
        case T_CreatedbStmt:
        case T_AlterDatabaseStmt:
            return true;
        case T_RenameStmt:
            return reinterpret_cast<RenameStmt *>(statement)->renameType == OBJECT_DATABASE;
        default:
            return false;
    }
}

// Marks the database as dropped, so that no worker is started there before the command commits.
void mark_dropped() {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    kept_out->extension = Presence::Absent;
    pg_atomic_write_u64(&kept_out->next_due, static_cast<uint64>(kNothingDue));
    LWLockRelease(database_states_lock());
}

// Runs the statement while workers are kept out of the database, until it ends or fails.
void run_without_workers(bool dropped, const UtilityCall &call) {
    PG_TRY();
    {
        wait_until_gone();
        call.run();
        if (dropped) mark_dropped();
    }
    PG_CATCH();
    {
        let_workers_in();
        PG_RE_THROW();
    }
    PG_END_TRY();
    let_workers_in();
}

void around_statement(const UtilityCall &call) {
    Node *statement = call.statement();
    if (!changes_databases(statement) || !IsUnderPostmaster || !IsTransactionState() || RecoveryInProgress()) {
        call.run();
        return;
    }

    const Target target = target_of(statement);
    announce_databases_at_commit();
    if (!OidIsValid(target.database) || kept_out != nullptr || !keep_workers_out(target.database))
        call.run();
    else
        run_without_workers(target.dropped, call);
}

}  // namespace

void install_database_commands_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
