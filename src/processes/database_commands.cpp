// See database_commands.h. DROP DATABASE, ALTER DATABASE ... RENAME or SET TABLESPACE, and CREATE DATABASE ... TEMPLATE
// fail if a session is connected to the database. The hook in this file makes the background worker leave before such a
// command, and keeps workers out of the database until the command has succeeded or failed. Otherwise, a database owner
// that is not a superuser could not run these commands, because only a superuser is allowed to terminate the worker.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/latch.h"
#include "compat/utility_hook.h"
#include "handlers/executor_slots.h"
#include "log/transaction_log.h"
#include "processes/database_commands.h"
#include "processes/recount.h"
#include "shmem/database_state.h"

extern "C" {
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
}

#include <csignal>
#include <optional>

namespace jobq {

namespace {

// How long the session waits for a worker to finish its batch and exit. After this time, the session terminates the
// worker, because the worker might be waiting for a lock.
constexpr core::Micros kPatience = 300000;
constexpr core::Micros kLongestWait = 2 * core::kSecond;
constexpr core::Micros kPoll = 5 * core::kMillisecond;

// The state of the database that this session currently keeps workers out of.
DatabaseState *kept_out = nullptr;
bool exit_callback_registered = false;

struct Target {
    Oid database;  // InvalidOid if no worker has to leave a database
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

// Exit callback that lets workers in again if the session is terminated during the command.
void let_workers_in_at_exit(int, Datum) { let_workers_in(); }

// Keeps workers out of the database. Returns false if the database has no state in shared memory and the table of
// states is full. In this case, no worker runs in the database.
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

// Waits until the worker has exited. Gives up after kLongestWait; the command then reports the sessions that are still
// connected.
void wait_until_gone() {
    const TimestampTz begin = GetCurrentTimestamp();
    bool terminated = false;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        const core::Micros waited = GetCurrentTimestamp() - begin;
        LWLockAcquire(database_states_lock(), LW_SHARED);
        const bool gone = kept_out->pid == 0 && !kept_out->starting && kept_out->recount_pid == 0;
        // The pid still belongs to the worker, because the worker cannot exit until this session releases the lock.
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

// Returns whether the user is allowed to copy the database. If not, the command will fail, so no worker needs to leave
// the database.
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
    // The server rejects DROP DATABASE and ALTER DATABASE for the current database.
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
    // No worker connects to a template database, so CREATE DATABASE usually need not create a state for its template.
    if (is_template && find_database_state(database) == nullptr) return {InvalidOid, false};
    return {may_copy(database, is_template) ? database : InvalidOid, false};
}

// Returns the database that must have no connected sessions when the command runs, with InvalidOid if there is no such
// database. Returns nothing if the command does not add, change, or drop a database.
std::optional<Target> target_of(Node *statement) {
    switch (nodeTag(statement)) {
        case T_DropdbStmt:
            return target_by_name(reinterpret_cast<DropdbStmt *>(statement)->dbname, true);
        case T_RenameStmt: {
            const auto *rename = reinterpret_cast<RenameStmt *>(statement);
            if (rename->renameType != OBJECT_DATABASE) return {};
            return target_by_name(rename->subname, false);
        }
        case T_AlterDatabaseStmt: {
            const auto *alter = reinterpret_cast<AlterDatabaseStmt *>(statement);
            if (find_option(alter->options, "tablespace") == nullptr) return Target{InvalidOid, false};
            return target_by_name(alter->dbname, false);
        }
        case T_CreatedbStmt:
            return copied_database(reinterpret_cast<CreatedbStmt *>(statement));
        default:
            return {};
    }
}

// Marks the database as dropped, so that no worker is started there before the command commits.
void mark_dropped() {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    kept_out->extension = Presence::Absent;
    pg_atomic_write_u64(&kept_out->next_due, static_cast<uint64>(kNothingDue));
    LWLockRelease(database_states_lock());
}

// Waits until the worker has left the database, runs the statement, and then lets workers in again, even if the
// statement fails.
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
    const bool can_change = IsUnderPostmaster && IsTransactionState() && !RecoveryInProgress();
    const std::optional<Target> target = can_change ? target_of(call.statement()) : std::nullopt;
    if (target) announce_databases_at_commit();
    if (!target || !OidIsValid(target->database) || kept_out != nullptr || !keep_workers_out(target->database))
        call.run();
    else
        run_without_workers(target->dropped, call);
}

}  // namespace

void install_database_commands_hook() { go_around_utility<around_statement>(); }

}  // namespace jobq
