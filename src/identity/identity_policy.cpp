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

// pg_upgrade keeps the oids of databases and the rows, and makes a new system.
bool was_upgraded(const Place &here, const Origin &origin) noexcept {
    return origin.place.system != here.system && origin.place.major < here.major;
}

// It came with the files of the database, not by a dump: then there would be a row of here as well.
bool is_inherited(const Place &here, const Origin &origin) noexcept {
    const bool upgraded = was_upgraded(here, origin);
    // What is in a template is meant to be copied, and nobody runs it there.
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
        // What is of another place tells more than a row of here that has been found in a copy.
        if (*foreign < 0 || (is_of(here, origins[*foreign]) && !is_of(here, origins[i]))) *foreign = i;
        if (good && is_inherited(here, origins[i])) inherited++;
    }
    if (count > 0 && own == count) return Identity::Own;
    return inherited == count ? Identity::Inherited : Identity::Copy;
}

MarkChange change_of_mark(const DataDirectory &found) noexcept {
    // Its promotion makes no copy of it.
    if (found.follows) return MarkChange::Clear;
    return found.from_backup ? MarkChange::Renew : MarkChange::Keep;
}

}  // namespace jobq::core
