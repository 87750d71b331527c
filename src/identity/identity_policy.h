// Decides whether a database owns its jobs or is a copy: docs/design.md, "Copies". Pure.
#pragma once

#include <cstdint>

namespace jobq::core {

// The identity of a database.
struct Place {
    std::uint64_t system;         // system identifier of the server
    std::uint32_t database;       // its OID
    std::int32_t major;           // major version of the server
    std::int64_t data_directory;  // mark that its data directory requires; 0 if none
};

// A row of jobq.identity: the place that the jobs belong to or belonged to.
struct Origin {
    Place place;
    bool copied;       // marked as copied, and not adopted since
    bool is_template;  // the server has a template database with this OID
};

// Own: every row belongs to this database. Inherited: no row does, but no other database runs these jobs; the rows must
// be rewritten. Copy: the database leaves its jobs alone.
enum class Identity : std::uint8_t { Own, Inherited, Copy };

// Decides from the rows. In a copy, *foreign is the first row of another place or, if none exists, the first row that
// is not valid here.
Identity identify(const Place &here, const Origin *origins, int count, int *foreign) noexcept;

// The files that a server finds in its data directory when it starts.
struct DataDirectory {
    bool follows;      // standby.signal exists: the server is a standby
    bool from_backup;  // backup_label or recovery.signal exists: the server starts from a backup
};

enum class MarkChange : std::uint8_t {
    Keep,
    Clear,  // rows need no mark
    Renew,  // the directory is a copy: rows must carry a new mark, which only an adoption writes
};
MarkChange change_of_mark(const DataDirectory &found) noexcept;

}  // namespace jobq::core
