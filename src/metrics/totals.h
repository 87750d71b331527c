// The totals of each queue and kind in shared memory: what has happened to jobs since they were reset, histograms of
// how long they waited and ran. What a transaction has done is added when everybody can see it, from its log; what it
// rolls back is never there. Nothing is written to tables.
//
// Of fixed size (jobq.max_metric_series, for all databases). A series that finds no place is counted in that of its
// database without a name, until there is one. What nobody can know is counted as such: the transactions that were
// prepared before the server began, for example.
//
// A clean shutdown writes them into a file, which the next start reads and removes: after a crash they begin anew, like
// the server's own statistics. Without preload, and with jobq.max_metric_series = 0, there are none.
#pragma once

#include "compat/pg.h"
#include "metrics/series_policy.h"

namespace jobq {

// Adds what a transaction of this database has done. `incomplete`: and something that nobody knows. Raises no error.
void add_totals(const core::SeriesChange *changes, int count, bool incomplete);

// For main/jobq.cpp.
void publish_totals();  // of the log

// The database or its extension is gone. The databases that have any, at most kMaxDatabases: returns how many.
void drop_totals(Oid oid);
int databases_with_totals(Oid *databases);
// A transaction of that database may have been committed, and nobody knows what it has done.
void miss_totals(Oid oid);

// All totals of this database begin anew, and their places are free. Returns when; 0: there are none.
TimestampTz reset_totals();

struct Series {
    core::SeriesName name;
    core::SeriesNumbers numbers;
};
struct Totals {
    bool known;           // false: there are none
    TimestampTz since;    // when they were reset, or began
    int64 missed;         // transactions that are not, or not wholly, in them
    int64 places, taken;  // in the whole server
    Series *series;       // by queue and kind; that without a name, if anything is in it, comes last
    int count;
};
Totals read_totals();

// For main/jobq.cpp: its part of the shared memory.
Size totals_size();
void make_totals(void *memory, bool fresh);

}  // namespace jobq
