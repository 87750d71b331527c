// Functions that the two sleeping procedures, jobq_wait and jobq_wait_job, share.
//
// They are procedures because they must end the transaction in which they are called: the snapshot of a waiting
// statement would hold back vacuum. They commit first, and each read of the tables is a separate short transaction, so
// they have no snapshot while they sleep. A procedure that ends transactions can neither be SECURITY DEFINER nor have a
// search_path setting, so each read switches to the owner's privileges and sets search_path itself.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Raises 25001 unless the procedure `name` is allowed to end the transaction in which it is called. Must be called
// before anything else.
void require_autocommit(FunctionCallInfo fcinfo, const char *name);

// Returns the owner of the procedure. While the procedure sleeps, it reads tables with the privileges of this owner.
// Raises 42883 if the procedure has been dropped.
Oid owner_of_procedure(Oid procedure, const char *name);

// Locks the table of jobs, if it exists, until the transaction ends.
void lock_jobs_to_read();

// Ends the session if its client has disconnected.
void check_client();

// Runs body under a snapshot, with the privileges of the procedure's owner, and then ends the transaction.
template <typename Body>
void run_as_owner(Oid procedure, const char *name, Body body) {
    // This transaction began before the sleep, so the extension might have been dropped since then. The lock waits for
    // a transaction that is dropping the extension; after that transaction, owner_of_procedure() raises an error.
    lock_jobs_to_read();
    AcceptInvalidationMessages();
    // Sets the isolation level, because body() needs a new snapshot and must not fail with a serialization error. This
    // is possible because the transaction has no snapshot yet.
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
