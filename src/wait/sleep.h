// Functions that both procedures that sleep, jobq_wait and jobq_wait_job, use.
//
// They are procedures because they must end the transaction in which they are called: the snapshot of a waiting
// statement would hold back vacuum. They commit first, and each read of the tables is a separate short transaction, so
// they have no snapshot while they sleep. A procedure that ends transactions can neither be SECURITY DEFINER nor have a
// search_path setting, so each read switches to the owner's rights and sets search_path itself.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Raises 25001 unless the procedure `name` may end the transaction it is called in. Must be called before anything
// else.
void require_autocommit(FunctionCallInfo fcinfo, const char *name);

// Returns the owner of the procedure, whose rights each read uses. Raises 42883 if the procedure has been dropped.
Oid owner_of_procedure(Oid procedure, const char *name);

// Locks the table of jobs, if it exists, until the transaction ends.
void lock_jobs_to_read();

// Ends the session if its client has disconnected.
void check_client();

// Runs body under a snapshot, with the rights of the procedure's owner, and then ends the transaction.
template <typename Body>
void run_as_owner(Oid procedure, const char *name, Body body) {
    // The transaction began before the sleep. The lock waits for a transaction that drops the extension; after that,
    // the procedure no longer exists.
    lock_jobs_to_read();
    AcceptInvalidationMessages();
    // This is possible because the transaction has no snapshot yet. It is necessary because each read needs a new
    // snapshot and must not fail with a serialization error.
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
