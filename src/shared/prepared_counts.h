// What prepared transactions change about the numbers of jobs, kept from PREPARE TRANSACTION until COMMIT PREPARED or
// ROLLBACK PREPARED, which may come from any session and runs no transaction callbacks there. For counting.cpp and the
// utility hook. A restart forgets it; then the counters are unknown anyway, and COMMIT PREPARED of what was prepared
// before makes them unknown once more.
#pragma once

#include "pg/pg.h"
#include "shared/counters.h"

namespace jobq {

// For shared/memory.cpp.
Size prepared_counts_size();
void make_prepared_counts(void *memory, bool fresh);

// Keeps the changes of the current transaction, which is being prepared under that name. Raises no error.
void keep_prepared_changes(const char *gid, const QueueChange *changes, int count, FullTransactionId xid, bool forget);

// The prepared transaction of that name, of this database, was committed or rolled back just now.
void settle_prepared_changes(const char *gid);

}  // namespace jobq
