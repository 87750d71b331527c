// See extension.h. Also contains the SQL function jobq_announce().
#include "compat/pg.h"

#include "compat/spi.h"
#include "identity/identity.h"
#include "log/transaction_log.h"
#include "processes/extension.h"
#include "row/owner.h"

extern "C" {
#include "access/stratnum.h"
#include "catalog/pg_extension.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

void copy_version(HeapTuple tuple, TupleDesc desc, InstalledExtension *extension) {
    Datum values[Natts_pg_extension];
    bool nulls[Natts_pg_extension];
    heap_deform_tuple(tuple, desc, values, nulls);
    constexpr int kVersion = Anum_pg_extension_extversion - 1;
    if (!nulls[kVersion])
        strlcpy(extension->version, TextDatumGetCString(values[kVersion]), sizeof(extension->version));
}

}  // namespace

InstalledExtension installed_extension() {
    InstalledExtension extension = {};
    Relation relation = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("jobq"));
    SysScanDesc scan = systable_beginscan(relation, ExtensionNameIndexId, true, nullptr, 1, &key);
    HeapTuple tuple = systable_getnext(scan);
    if (HeapTupleIsValid(tuple)) {
        const auto *row = reinterpret_cast<FormData_pg_extension *>(GETSTRUCT(tuple));
        extension.oid = row->oid;
        extension.owner = row->extowner;
        copy_version(tuple, RelationGetDescr(relation), &extension);
    }
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    return extension;
}

InstalledExtension lock_extension() {
    for (;;) {
        const InstalledExtension found = installed_extension();
        if (!OidIsValid(found.oid)) return found;
        LockDatabaseObject(ExtensionRelationId, found.oid, 0, AccessShareLock);
        // Looks up the extension again, because it might have been dropped, or dropped and created again, while this
        // session waited for the lock.
        const InstalledExtension locked = installed_extension();
        if (locked.oid == found.oid) return locked;
        UnlockDatabaseObject(ExtensionRelationId, found.oid, 0, AccessShareLock);
    }
}

extern "C" {

// Publishes that the extension exists. The extension script calls this function at the end of CREATE EXTENSION.
PG_FUNCTION_INFO_V1(jobq_announce);
PGDLLEXPORT Datum jobq_announce(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    with_owner_spi([] { found_identity(); });
    announce_extension_at_commit();
    // Requests a recount, because the existing counters belong to an earlier installation in this database.
    recount_at_commit();
    log_queue_dropped({});
    PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace jobq
