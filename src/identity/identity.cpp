// See identity.h. The rows of jobq.identity come from CREATE EXTENSION in this database, from a dump, from a template
// database, or from copied database files. A trigger on the table sends a relation cache invalidation message for each
// change, as the trigger on jobq.queue_settings does.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/relation_changes.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "identity/data_directory.h"
#include "identity/identity.h"
#include "row/owner.h"

extern "C" {
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

// Maximum number of rows of jobq.identity that are read. Copying databases never creates more rows; only plain SQL can
// insert more.
constexpr int kMaxOrigins = 100;

Statement read_origins = {
    R"(SELECT i.system_identifier, i.database, i.major_version, i.data_directory, i.copied, i.adopted_at
       FROM jobq.identity i LIMIT $1)",
    {INT4OID}};
Statement lock_origins = {"LOCK TABLE jobq.identity IN SHARE ROW EXCLUSIVE MODE", {}, Planning::Free};
Statement delete_origins = {"DELETE FROM jobq.identity", {}, Planning::Free};
Statement add_origin = {
    R"(INSERT INTO jobq.identity (system_identifier, database, major_version, data_directory, adopted_at)
       VALUES ($1, $2, $3, $4, $5))",
    {INT8OID, OIDOID, INT4OID, INT8OID, TIMESTAMPTZOID},
    Planning::Free};
Statement mark_copied = {"UPDATE jobq.identity i SET copied = true WHERE NOT i.copied", {}, Planning::Free};

// What the rows of jobq.identity show about this database.
struct Known {
    core::Identity identity;
    bool noted;          // whether all rows are marked as copied
    core::Place origin;  // if this database is a copy: the location of the database to which its jobs belong
    TimestampTz adopted_at;
};
Known known = {core::Identity::Own, false, {}, 0};
// The cached value in `known` is valid while known_generation equals current_generation.
uint64 known_generation = 0;
uint64 current_generation = 1;
Oid identity_table = InvalidOid;

void on_relcache_invalidation(Oid relation) {
    if (relation == InvalidOid || relation == identity_table) current_generation++;
}

core::Place here() { return {GetSystemIdentifier(), MyDatabaseId, kServerMajor, data_directory_mark()}; }

Known judge(const Rows &rows) {
    Known found = {core::Identity::Own, true, {}, 0};
    core::Origin origins[kMaxOrigins];
    const int count = static_cast<int>(Min(rows.size(), static_cast<uint64>(kMaxOrigins)));
    for (int i = 0; i < count; i++) {
        const Row row = rows[i];
        const Oid database = DatumGetObjectId(row.get(2));
        origins[i] = {{static_cast<uint64>(row.int64_at(1)), database, row.int32_at(3), row.int64_at(4)},
                      row.bool_at(5),
                      catalog_value(DATABASEOID, database, &FormData_pg_database::datistemplate, false)};
        found.noted &= origins[i].copied;
        found.adopted_at = Max(found.adopted_at, DatumGetTimestampTz(row.get(6)));
    }
    int foreign;
    found.identity = core::identify(here(), origins, count, &foreign);
    if (rows.size() > kMaxOrigins) {
        found.identity = core::Identity::Copy;
        foreign = Max(foreign, 0);
    }
    if (found.identity == core::Identity::Copy) found.origin = origins[foreign].place;
    return found;
}

const Known &know() {
    if (known_generation == current_generation) return known;
    on_relation_change<on_relcache_invalidation>();
    // Reads the generation before the rows, so that an invalidation message that arrives while the rows are read makes
    // the result stale.
    const uint64 generation = current_generation;
    identity_table = get_relname_relid("identity", get_namespace_oid("jobq", false));
    with_owner_spi_now(
        [&] { known = judge(read(read_origins, Params().add(Int32GetDatum(kMaxOrigins + 1)), GetActiveSnapshot())); });
    known_generation = generation;
    return known;
}

void write_origin(TimestampTz adopted_at) {
    const core::Place place = here();
    run(delete_origins, Params());
    run(add_origin, Params()
                        .add(Int64GetDatum(static_cast<int64>(place.system)))
                        .add(ObjectIdGetDatum(place.database))
                        .add(Int32GetDatum(place.major))
                        .add(Int64GetDatum(place.data_directory))
                        .add(TimestampTzGetDatum(adopted_at)));
}

// Locks jobq.identity and returns the identity of this database. Without the lock, two sessions could both insert a
// row. Acquiring the lock also waits until a dump that is being restored is committed.
core::Identity lock_identity() {
    run(lock_origins, Params());
    AcceptInvalidationMessages();
    return know().identity;
}

// Marks the rows as copied. Does nothing if another session has locked the table, because that session might be
// adopting the jobs; a later tick tries again.
void note_copy() {
    if (!ConditionalLockRelationOid(identity_table, ShareRowExclusiveLock)) return;
    AcceptInvalidationMessages();
    if (know().identity == core::Identity::Copy) run(mark_copied, Params());
}

}  // namespace

bool leaves_jobs_alone() { return know().identity == core::Identity::Copy && settings.adopt != Adopt::Auto; }

void require_own_jobs() {
    if (!leaves_jobs_alone()) return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("the jobs do not run because database \"%s\" is a copy", get_database_name(MyDatabaseId)),
                    errdetail("%s", describe_origin()), errhint("%s", adoption_hint())));
}

const char *describe_origin() {
    const core::Place origin = know().origin;
    const core::Place place = here();
    if (origin.system != place.system)
        return psprintf(
            "The jobs belong to the database with OID %u and system identifier %llu, but this database has OID "
            "%u and system identifier %llu.",
            origin.database, static_cast<unsigned long long>(origin.system), place.database,
            static_cast<unsigned long long>(place.system));
    if (origin.database == place.database) return "The data directory is a restored base backup.";
    const char *name = get_database_name(origin.database);
    if (name == nullptr)
        return psprintf("The jobs belong to the database with OID %u, which no longer exists.", origin.database);
    return psprintf("The jobs belong to database \"%s\".", name);
}

const char *adoption_hint() {
    return _(
        "To run the jobs here and nowhere else, run SELECT jobq_adopt() in this database as its owner or an operator.");
}

TimestampTz adopted_at() { return know().adopted_at; }

bool adopt() {
    AcceptInvalidationMessages();
    if (know().identity == core::Identity::Own) return false;
    const core::Identity was = lock_identity();
    if (was == core::Identity::Own) return false;
    // If the identity was Inherited, the jobs have always belonged to this database, so `adopted_at` stays the same.
    // The only grace period that these leases get is the period after a server start.
    const bool copy = was == core::Identity::Copy;
    write_origin(copy ? GetCurrentTimestamp() : adopted_at());
    return copy;
}

bool settle_identity() {
    const Known found = know();
    if (found.identity == core::Identity::Own) return false;
    const bool copy = found.identity == core::Identity::Copy;
    if (copy && settings.adopt != Adopt::Auto) {
        if (!found.noted) note_copy();
        return false;
    }
    const char *from = copy ? describe_origin() : nullptr;
    if (!adopt()) return false;
    ereport(LOG, (errmsg("jobq: adopted the jobs of another database because \"jobq.adopt\" is \"auto\""),
                  errdetail("%s", from)));
    return true;
}

void found_identity() {
    know();
    if (OidIsValid(identity_table) && read(read_origins, Params().add(Int32GetDatum(1))).size() == 0)
        write_origin(GetCurrentTimestamp());
}

}  // namespace jobq
