// See process.h.
#include "compat/pg.h"

#include "processes/process.h"

extern "C" {
#include "storage/ipc.h"
}

namespace jobq {

namespace {

struct OwnSetting {
    const char *name;
    const char *value;
};

constexpr OwnSetting kOwnSettings[] = {
    {"role", "none"},
    {"search_path", "pg_catalog, pg_temp"},
    // Duties need no durable commits: if a crash loses their changes, the next round makes the changes again, and a
    // transaction that depends on the changes flushes them with its own commit. With this setting, the commits of
    // duties do not wait for the disk or for a synchronous standby, so a standby that is down cannot delay duties or
    // the shutdown.
    {"synchronous_commit", "off"},
    // The lock timeout is shorter than the default of deadlock_timeout. So if a duty and a DDL statement block each
    // other, the duty fails rather than the DDL statement.
    {"lock_timeout", "500ms"},
    // statement_timeout has no effect in a background worker, because only the main loop of client sessions applies it.
    // Instead, each step sets its own timeout.
    {"statement_timeout", "0"},
    {"idle_in_transaction_session_timeout", "0"},
    {"transaction_timeout", "0"},
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"default_transaction_deferrable", "off"},
    {"session_replication_role", "origin"},
    {"row_security", "on"},
    {"max_parallel_workers_per_gather", "0"},
};

}  // namespace

bool start_process(const ProcessKind &kind, const char *name, const DatabaseState *db, Oid database,
                   BackgroundWorkerHandle **handle) {
    const Datum index = Int32GetDatum(static_cast<int32>(db - shared_state()->databases));
    return register_process(kind, name, index, &database, sizeof(database), handle);
}

void begin_process(Datum database_index, bool (*attach)(DatabaseState *db, Oid database)) {
    install_signal_handlers();
    Oid database;
    memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(database));
    if (shared_state() == nullptr || !attach(&shared_state()->databases[DatumGetInt32(database_index)], database))
        proc_exit(0);

    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
    use_own_settings();
    read_settings();
}

void use_own_settings() {
    for (const OwnSetting &setting : kOwnSettings) {
        // Skips settings that this server does not have; transaction_timeout was added in PostgreSQL 17.
        if (GetConfigOption(setting.name, true, false) == nullptr) continue;
        SetConfigOption(setting.name, setting.value, PGC_SUSET, PGC_S_OVERRIDE);
    }
}

}  // namespace jobq
