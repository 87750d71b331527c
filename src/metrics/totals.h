// The totals of each queue and kind in shared memory: what has happened to jobs since the last reset, and histograms of
// how long jobs waited and ran. The changes of a transaction are added from its log when the transaction becomes
// visible; a rolled-back change is never added. Nothing is written to tables.
//
// The size is fixed (jobq.max_metric_series, for all databases). A series that finds no place is counted in the
// nameless series of its database until a place is free. Transactions whose changes cannot be known are counted as
// missed, for example those that were prepared before the server started.
//
// A restart of the server resets the totals, as Prometheus expects of counters. There are no totals without preload or
// with jobq.max_metric_series = 0.
#pragma once

#include "compat/pg.h"
#include "core/series.h"
#include "shmem/memory.h"

namespace jobq {

// Adds the changes of a transaction of this database. `incomplete` means that some of its changes are unknown. Raises
// no error.
void add_totals(const core::SeriesChange *changes, int count, bool incomplete);

// main/jobq.cpp calls it.
void publish_totals();  // from the transaction log

// These functions are for databases that are dropped or whose extension is dropped. The first removes the totals of a
// database; the second returns the number of databases with totals and writes them to `databases`, which has room for
// kMaxDatabases.
void drop_totals(Oid oid);
int databases_with_totals(Oid *databases);
// Counts a missed transaction: a transaction of that database may have committed, and its changes are unknown.
void miss_totals(Oid oid);

// Resets all totals of this database and frees their places. Returns the time of the reset, or 0 if there are no
// totals.
TimestampTz reset_totals();

struct Series {
    core::SeriesName name;
    core::SeriesNumbers numbers;
};
struct Totals {
    bool known;         // false if this database has no totals
    TimestampTz since;  // when the totals were reset or started
    int64 missed;       // number of transactions that are missing from the totals, wholly or partly
    Series *series;     // ordered by queue and kind; the nameless series comes last if it is not empty
    int count;
};
Totals read_totals();

// main/jobq.cpp calls these functions for this part of the shared memory.
Size totals_size();
void make_totals(void *memory, bool fresh);
SharedUsage totals_usage();

}  // namespace jobq
