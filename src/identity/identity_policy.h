// Whether a database is the one whose jobs it holds, or a copy: docs/design.md, "Copies". Pure.
#pragma once

#include <cstdint>

namespace jobq::core {

// Where a database stands.
struct Place {
    std::uint64_t system;         // the identifier of its server
    std::uint32_t database;       // its oid
    std::int32_t major;           // the server's major version
    std::int64_t data_directory;  // the mark that its data directory asks for; 0: none
};

// A row of jobq.identity: the place of which these jobs are, or were.
struct Origin {
    Place place;
    bool copied;       // it was found in a copy, and is not adopted yet
    bool is_template;  // the server has a template database with this oid
};

// Own: every row is of here. Inherited: none is, but no other database runs these jobs; the rows are to be written
// anew. Copy: the jobs are left alone.
enum class Identity : std::uint8_t { Own, Inherited, Copy };

// *foreign: in a copy, the first row of another place; where there is none, the first that is not its own.
Identity identify(const Place &here, const Origin *origins, int count, int *foreign) noexcept;

// What a server finds in its data directory when it starts.
struct DataDirectory {
    bool follows;      // standby.signal: it is a standby
    bool from_backup;  // backup_label or recovery.signal: it is started from a backup
};

enum class MarkChange : std::uint8_t {
    Keep,
    Clear,  // no row need carry a mark
    Renew,  // a copy: rows must carry a new one, which only an adoption gives them
};
MarkChange change_of_mark(const DataDirectory &found) noexcept;

}  // namespace jobq::core
