// See identity_policy.h.
#include "identity/identity_policy.h"

namespace jobq::core {

namespace {

bool has_mark_of(const Place &here, const Origin &origin) noexcept {
    return here.data_directory == 0 || origin.place.data_directory == here.data_directory;
}

bool is_of(const Place &here, const Origin &origin) noexcept {
    return origin.place.system == here.system && origin.place.database == here.database;
}

// Returns whether pg_upgrade moved the row here. pg_upgrade keeps the rows and the OIDs of databases, but the new
// cluster has another system identifier.
bool was_upgraded(const Place &here, const Origin &origin) noexcept {
    return origin.place.system != here.system && origin.place.major < here.major;
}

// Returns whether the row was copied here by pg_upgrade or from a template database, as part of the database files. A
// restored dump does not count, because a row of this database already exists when it is restored.
bool is_inherited(const Place &here, const Origin &origin) noexcept {
    const bool upgraded = was_upgraded(here, origin);
    // A template is meant to be copied, and its jobs do not run in the template.
    if (origin.is_template) return upgraded || origin.place.system == here.system;
    return upgraded && origin.place.database == here.database;
}

}  // namespace

Identity identify(const Place &here, const Origin *origins, int count, int *foreign) noexcept {
    int own = 0;
    int inherited = 0;
    *foreign = -1;
    for (int i = 0; i < count; i++) {
        const bool good = !origins[i].copied && has_mark_of(here, origins[i]);
        if (good && is_of(here, origins[i])) {
            own++;
            continue;
        }
        // Prefers a row of another place, because it says more than a row with the place of this database that was
        // marked as copied.
        if (*foreign < 0 || (is_of(here, origins[*foreign]) && !is_of(here, origins[i]))) *foreign = i;
        if (good && is_inherited(here, origins[i])) inherited++;
    }
    if (count > 0 && own == count) return Identity::Own;
    return inherited == count ? Identity::Inherited : Identity::Copy;
}

MarkChange change_of_mark(const DataDirectory &found) noexcept {
    // A standby does not become a copy when it is promoted.
    if (found.follows) return MarkChange::Clear;
    return found.from_backup ? MarkChange::Renew : MarkChange::Keep;
}

}  // namespace jobq::core
