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

// Returns whether the row came from an older cluster through pg_upgrade, which keeps the rows and the OIDs of databases
// but gives the new cluster a different system identifier.
bool was_upgraded(const Place &here, const Origin &origin) noexcept {
    return origin.place.system != here.system && origin.place.major < here.major;
}

// Returns whether the row came here with the files of a database, either through pg_upgrade or from a template
// database. A row from a dump does not count, because a row of this database already exists when the dump is restored.
bool is_inherited(const Place &here, const Origin &origin) noexcept {
    const bool upgraded = was_upgraded(here, origin);
    // The row of a template database counts as inherited, because a template is meant to be copied, and the jobs in the
    // template do not run there.
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
        // Prefers a row that describes another database, because it is more informative than a row that describes this
        // database and was marked as copied.
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
