// Jobs that have lost a worker before. Several that were lost together are all suspected of having killed it, and are
// handed out one at a time from then on, until one of them loses its worker alone.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"

namespace jobq {

// What the rescue has found out about the jobs that it ends.
struct Company {
    bool *lost_together;  // for each of the ids
    // Jobs that still run, as far as is known, and went silent together with one of them.
    Datum *ids;
    Datum *leases;
    int count;
};

// Of jobs that the caller has locked, those of which lost[i] says that their worker is silent. `before`: a registered
// snapshot from before they were locked. What another rescue ends meanwhile still runs there: of two that share the
// jobs of a worker, none takes its part for the whole. Inside with_spi().
Company find_company_of(Datum *ids, const bool *lost, int count, Snapshot before);
// Remembers of running jobs that their worker fell silent together with others, for when their own time is over. Rows
// that somebody holds are left out: somebody reports on them.
void mark_company(const Datum *ids, const Datum *leases, int count);

// Whether the job in table.row has lost a worker before.
inline bool is_suspect(const JobsTable &jobs) {
    return job_has(jobs, kJobCompanyLease) || DatumGetInt32(job_value(jobs, kJobLostAttempts)) > 0;
}

// Whether the worker holds suspects that have not outlived a heartbeat timeout. *until: when all have, if it goes on to
// report on them. Inside with_spi().
bool is_on_trial(text *worker_id, TimestampTz *until);

// Without SPI: whether the worker may be given a suspect, that is holds none that may yet be what kills it. Then nobody
// else gets one for it until the transaction ends.
bool may_take_suspect(text *worker_id);

}  // namespace jobq
