// Whether the extension, which may be older than the library, has schedules.
#pragma once

#include "compat/pg.h"

namespace jobq {

inline bool has_schedules() {
    return OidIsValid(get_relname_relid("schedule_settings", get_namespace_oid("jobq", false)));
}

}  // namespace jobq
