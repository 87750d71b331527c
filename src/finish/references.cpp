// See references.h.
#include "compat/pg.h"

#include "compat/followers.h"
#include "finish/references.h"
#include "table/table_in_use.h"

#include <initializer_list>

namespace jobq {

namespace {

void require_trusted_followers_of(const char *name) {
    Relation table = table_open(get_relname_relid(name, get_namespace_oid("jobq", false)), RowExclusiveLock);
    require_trusted_followers(table, RowChange::Delete, GetUserId());
    table_close(table, NoLock);
}

}  // namespace

void require_deletable_jobs() {
    for (const char *name : {"jobs", "attempts", "edges"}) require_trusted_followers_of(name);
    // If one of these tables is empty, deleting a job deletes no row from that table, so foreign keys that reference
    // that table do not matter.
    for (const char *name : {"log_lines", "steps", "job_signals"})
        if (is_in_use(name)) require_trusted_followers_of(name);
}

}  // namespace jobq
