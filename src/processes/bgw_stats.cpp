// The SQL function jobq.background_workers(), which the view jobq.background_workers calls.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "compat/result_set.h"
#include "compat/served.h"
#include "compat/settings.h"
#include "core/version.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

extern "C" {
#include "access/xlog.h"
#include "catalog/pg_authid_d.h"
#include "commands/dbcommands.h"
}

namespace jobq {

namespace {

constexpr int count_shown() {
    int shown = 0;
    for (const core::DutyTraits &duty : core::kDuties) shown += duty.has_column ? 1 : 0;
    return shown;
}

enum Column {
    kPid,
    kDatabase,
    kState,
    kLastRound,
    kNextRound,
    kLastError,
    kLastErrorAt,
    kLastErrorOverAt,
    kRounds,
    kFirstDuty,
    kNote = kFirstDuty + count_shown(),
    kColumnCount
};

struct ReportRow {
    Datum values[kColumnCount];
    bool nulls[kColumnCount];
};

ReportRow empty_row() {
    ReportRow row;
    for (int i = 0; i < kColumnCount; i++) {
        row.values[i] = Datum(0);
        row.nulls[i] = true;
    }
    return row;
}

void put(ReportRow *row, int column, Datum value) {
    row->values[column] = value;
    row->nulls[column] = false;
}

void put_text(ReportRow *row, int column, const char *value) {
    if (value != nullptr && value[0] != '\0') put(row, column, CStringGetTextDatum(value));
}

void put_time(ReportRow *row, int column, TimestampTz value) {
    if (value != 0 && value != kNothingDue) put(row, column, TimestampTzGetDatum(value));
}

// Replaces the non-ASCII characters in the text if the text is not valid in the encoding of this database. The text can
// come from a database with a different encoding.
const char *readable(char *text) {
    if (pg_verifymbstr(text, static_cast<int>(strlen(text)), true)) return text;
    for (char *c = text; *c != '\0'; c++) {
        if (IS_HIGHBIT_SET(*c)) *c = '?';
    }
    return text;
}

void report_launcher(ResultSet *result, const SharedState &state) {
    ReportRow row = empty_row();
    const char *status = "not running";
    const char *note = "the server starts it again within a second, unless all background worker slots are in use";
    if (state.launcher_pid != 0) {
        put(&row, kPid, Int32GetDatum(state.launcher_pid));
        status = settings.enabled ? "running" : "disabled";
        note = settings.enabled ? nullptr : "jobq.enabled is off; call jobq_tick() every few seconds";
        if (settings.enabled && state.out_of_worker_slots)
            note = "all background worker slots are in use; increase max_worker_processes";
        else if (settings.enabled && pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&state.table_full)) != 0)
            note = psprintf("more than %d databases use jobq; call jobq_tick() in each database without a worker",
                            kMaxDatabases);
    }
    put_text(&row, kState, status);
    put_text(&row, kNote, note);
    result->row(row.values, row.nulls);
}

constexpr char kNoRoom[] = "waiting for a worker slot";

const char *status_of(const DatabaseState &db, TimestampTz due, Unserved why, const SharedState &state,
                      TimestampTz now) {
    if (why == Unserved::Template) return "template";
    if (why == Unserved::NoConnections && db.pid == 0) return "disabled";
    if (db.rests == core::Rest::Copy) return "copy";
    if (db.pid != 0) return "running";
    if (!settings.enabled || why != Unserved::No) return "disabled";
    if (db.keep_out > 0) return "kept out";
    if (db.starting) return "starting";
    if (db.not_before > now) return "backing off";
    // The launcher starts a worker as soon as the worker is due. So if a due worker has not been started, there is no
    // room for it.
    if (due <= now && state.launcher_pid != 0) return kNoRoom;
    return "idle";
}

const char *note_of(const DatabaseState &db, const char *status, Unserved why) {
    if (why != Unserved::No && (settings.enabled || why != Unserved::NotSelected)) return reason_of(why);
    if (strcmp(status, kNoRoom) == 0) return "all workers are busy; increase jobq.max_workers or max_worker_processes";
    if (strcmp(status, "kept out") == 0)
        return "a command such as DROP DATABASE requires that no session uses the database";
    if (db.rests == core::Rest::Copy)
        return "the database is a copy; its jobs do not run until you run SELECT jobq_adopt() in it";
    if (db.rests == core::Rest::Restore)
        return "a dump is being restored; jobs do not run until the restoring session has disconnected";
    if (db.version[0] == '\0') return nullptr;
    const int library_is = core::compare_versions(kLibraryVersion, db.version);
    if (library_is == 0) return nullptr;
    return psprintf(
        "the extension has version %s, but the library has version %s; %s", db.version, kLibraryVersion,
        library_is > 0 ? "run ALTER EXTENSION jobq UPDATE" : "install the newer library and restart the server");
}

// Returns whether the caller is allowed to read the error of a database. The error text can contain data from that
// database.
bool may_read_error(const DatabaseState *db) {
    return pg_atomic_read_u32(const_cast<pg_atomic_uint32 *>(&db->database)) == MyDatabaseId ||
           has_privs_of_role(GetOuterUserId(), ROLE_PG_READ_ALL_STATS);
}

void report_database(ResultSet *result, DatabaseState *db, const SharedState &state, TimestampTz now) {
    const char *name = get_database_name(pg_atomic_read_u32(&db->database));
    if (name == nullptr) return;
    const Unserved why = why_unserved(pg_atomic_read_u32(&db->database));
    // Does not report a template database if it is unknown whether the extension exists there. No worker connects to a
    // template database to find out.
    if (why == Unserved::Template && db->extension == Presence::Unknown) return;
    const TimestampTz due = due_of(db);
    const char *status = status_of(*db, due, why, state, now);

    ReportRow row = empty_row();
    if (db->pid != 0) put(&row, kPid, Int32GetDatum(db->pid));
    put_text(&row, kDatabase, name);
    put_text(&row, kState, status);
    put_time(&row, kLastRound, db->last_round);
    put_time(&row, kNextRound, due);
    if (may_read_error(db)) put_text(&row, kLastError, readable(db->last_error));
    put_time(&row, kLastErrorAt, db->last_error_at);
    put_time(&row, kLastErrorOverAt, db->last_error_over_at);
    put(&row, kRounds, Int64GetDatum(db->rounds));
    int column = kFirstDuty;
    for (int i = 0; i < core::kDutyCount; i++)
        if (core::kDuties[i].has_column) put(&row, column++, Int64GetDatum(db->steps[i].done));
    put_text(&row, kNote, note_of(*db, status, why));
    result->row(row.values, row.nulls);
}

// Returns whether the view shows the database. If it is unknown whether the extension exists in the database, the view
// shows the database only if a check for the extension is due or has failed.
bool worth_reporting(DatabaseState *db) {
    if (pg_atomic_read_u32(&db->database) == InvalidOid) return false;
    return db->extension == Presence::Present || db->failures > 0 || db->last_error[0] != '\0' ||
           (db->extension == Presence::Unknown && due_of(db) != kNothingDue);
}

void report_absence(ResultSet *result) {
    ReportRow row = empty_row();
    put_text(&row, kState, RecoveryInProgress() ? "standby" : "not running");
    put_text(&row, kNote,
             RecoveryInProgress() ? "background workers start when the standby is promoted"
                                  : "add jobq to shared_preload_libraries and restart the server; until then call "
                                    "jobq_tick() every few seconds");
    result->row(row.values, row.nulls);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_background_workers);
PGDLLEXPORT Datum jobq_background_workers(PG_FUNCTION_ARGS) {
    ResultSet result(fcinfo);
    if (!shared_memory_ready() || RecoveryInProgress()) {
        report_absence(&result);
        return result.done();
    }
    // Copies the state, because the code below reads catalogs, which it must not do while holding the lock.
    auto *state = static_cast<SharedState *>(palloc(sizeof(SharedState)));
    LWLockAcquire(database_states_lock(), LW_SHARED);
    memcpy(static_cast<void *>(state), shared_state(), sizeof(SharedState));
    LWLockRelease(database_states_lock());

    report_launcher(&result, *state);
    const TimestampTz now = GetCurrentTimestamp();
    for (DatabaseState &db : state->databases) {
        if (worth_reporting(&db)) report_database(&result, &db, *state, now);
    }
    pfree(state);
    return result.done();
}

}  // extern "C"

}  // namespace jobq
