// What the procedures that sleep have in common: jobq_wait, jobq_wait_job.
//
// Procedures, since they must end the transaction they are called in: the snapshot of a waiting statement would hold
// back vacuum. They commit first, and each look at the tables is a short transaction of its own; what they sleep in has
// no snapshot. Hence they can be neither SECURITY DEFINER nor have a search_path of their own: looks take both on
// themselves.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "job/job_policy.h"

namespace jobq {

// 25001 unless the procedure `name` may end the transaction it is called in. To be asked before anything else.
void require_autocommit(FunctionCallInfo fcinfo, const char *name);

// The owner of the procedure, as for SECURITY DEFINER; 42883 when it has been dropped.
Oid owner_of_procedure(Oid procedure, const char *name);

// The table of jobs, if it is there, until the transaction ends.
void lock_jobs_to_read();

// Ends the session when its client is gone.
void check_client();

// Runs body under a snapshot, with the rights of the procedure's owner, in a transaction that ends afterwards.
template <typename Body>
void look_as_owner(Oid procedure, const char *name, Body body) {
    // The transaction began before the sleep. Who drops the extension is waited for: then the procedure is gone.
    lock_jobs_to_read();
    AcceptInvalidationMessages();
    // It has no snapshot yet. Looks must not depend on each other, nor fail for what others do.
    XactIsoLevel = XACT_READ_COMMITTED;
    as_role(owner_of_procedure(procedure, name), [&] {
        with_spi([&] {
            PushActiveSnapshot(GetTransactionSnapshot());
            body();
            PopActiveSnapshot();
        });
    });
    SPI_commit();
}

}  // namespace jobq
