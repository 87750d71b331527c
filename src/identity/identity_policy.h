// Pure functions that decide whether a database owns its jobs or is a copy. See docs/internals/copies.md.
#pragma once

#include <cstdint>

namespace jobq::core {

// The location of a database: its server, and the database within the server.
struct Place {
    std::uint64_t system;         // system identifier of the server
    std::uint32_t database;       // its OID
    std::int32_t major;           // major version of the server
    std::int64_t data_directory;  // mark of its data directory (data_directory.h); 0 if none
};

// A row of jobq.identity: the location of the database to which the jobs belong or belonged.
struct Origin {
    Place place;
    bool copied;       // the row was marked as a copy and has not been adopted since
    bool is_template;  // the server has a template database with this OID
};

// The identity of a database. Own: every row describes this database. Inherited: the rows describe another location,
// for example after an upgrade, but no other database runs these jobs, so the rows must be rewritten. Copy: another
// database might run these jobs, so they do not run in this database.
enum class Identity : std::uint8_t { Own, Inherited, Copy };

// Returns the identity of the database located at `here`. `origins` are the rows in its table jobq.identity. For a
// copy, sets `*foreign` to the index of the first row with a different location or, if there is none, of the first row
// that is not valid for this database.
Identity identify(const Place &here, const Origin *origins, int count, int *foreign) noexcept;

// The files that a server finds in its data directory when it starts.
struct DataDirectory {
    bool follows;      // standby.signal exists: the server is a standby
    bool from_backup;  // backup_label or recovery.signal exists: the server starts from a backup
};

enum class MarkChange : std::uint8_t {
    Keep,
    Clear,  // rows need no mark
    Renew,  // the directory is a copy: rows are valid only with a new mark, which only an adoption writes
};
MarkChange change_of_mark(const DataDirectory &found) noexcept;

}  // namespace jobq::core
