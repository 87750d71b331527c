// The totals of each queue and kind, which are in shared memory. They contain how often each event has happened to jobs
// since the last reset, and histograms of how long jobs waited and ran. The changes in the log of a transaction are
// added when its commit becomes visible; a change that was rolled back is never added. The totals are not stored in
// tables.
//
// A series is the totals of one queue and kind. The maximum number of series in all databases together is fixed
// (jobq.max_metric_series). If there is no free entry for a new series, its events are counted in the nameless series
// of the database until an entry becomes free. Transactions whose changes are unknown, such as transactions that were
// prepared before the server started, are counted as missed.
//
// A restart of the server resets the totals, as Prometheus expects of counters. There are no totals if the library is
// not preloaded or jobq.max_metric_series is 0.
#pragma once

#include "compat/pg.h"
#include "core/series.h"
#include "shmem/memory.h"

namespace jobq {

// Adds the changes of a transaction of this database to the totals. `incomplete` means that some of its changes are
// unknown. Raises no error.
void add_totals(const core::SeriesChange *changes, int count, bool incomplete);

// Adds the changes in the log of the transaction that has just committed. Called by main/jobq.cpp.
void publish_totals();

// Functions for databases that were dropped or whose extension was dropped. drop_totals() removes the totals of a
// database. databases_with_totals() writes the OIDs of the databases with totals to `databases`, which has room for
// kMaxDatabases, and returns their number.
void drop_totals(Oid oid);
int databases_with_totals(Oid *databases);
// Counts a missed transaction. Called if a transaction with unknown changes might have committed in the database.
void miss_totals(Oid oid);

// Resets all totals of this database and frees their entries. Returns the time of the reset, or 0 if there are no
// totals.
TimestampTz reset_totals();

struct Series {
    core::SeriesName name;
    core::SeriesNumbers numbers;
};
struct Totals {
    bool known;         // false if this database has no totals
    TimestampTz since;  // when the totals were reset or started
    int64 missed;       // number of transactions of which some or all changes are missing from the totals
    Series *series;     // ordered by queue and kind; the nameless series comes last if it is not empty
    int count;
};
Totals read_totals();

// main/jobq.cpp calls these functions to set up and monitor this part of shared memory.
Size totals_size();
void make_totals(void *memory, bool fresh);
SharedUsage totals_usage();

}  // namespace jobq
