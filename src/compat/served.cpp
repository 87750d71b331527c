// See served.h.
#include "compat/pg.h"

#include "compat/served.h"
#include "compat/settings.h"

namespace jobq {

Unserved why_unserved(const FormData_pg_database &database) {
    constexpr int kInvalidDatabase = -2;  // an interrupted DROP DATABASE leaves this value
    // Jobs in a template database do not run, and CREATE DATABASE would fail while a worker is connected to the
    // template.
    if (database.datistemplate) return Unserved::Template;
    if (!database.datallowconn) return Unserved::NoConnections;
    if (!database_selected(NameStr(database.datname))) return Unserved::NotSelected;
    return database.datconnlimit == kInvalidDatabase ? Unserved::Invalid : Unserved::No;
}

Unserved why_unserved(Oid database) {
    HeapTuple row = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
    if (!HeapTupleIsValid(row)) return Unserved::Gone;
    const Unserved why = why_unserved(*reinterpret_cast<const FormData_pg_database *>(GETSTRUCT(row)));
    ReleaseSysCache(row);
    return why;
}

const char *reason_of(Unserved why) {
    switch (why) {
        case Unserved::Template:
            return "background workers do not serve templates; see ALTER DATABASE ... IS_TEMPLATE";
        case Unserved::NoConnections:
            return "the database allows no connections; see ALTER DATABASE ... ALLOW_CONNECTIONS";
        case Unserved::NotSelected:
            return "the database is not in jobq.databases";
        case Unserved::Invalid:
            return "DROP DATABASE was interrupted; run it again";
        case Unserved::Gone:
            return "the database has been dropped";
        default:
            return nullptr;
    }
}

}  // namespace jobq
