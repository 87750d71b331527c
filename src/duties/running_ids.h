// Where rescue-indexed jobs can be, so that a search for them does not pass the entries of jobs that have ended.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Ranges of ids, in their order: the firsts and the lasts, both included.
struct RunningIds {
    Datum first, last;  // arrays
};

// Reads them anew (lanes/refresh.h); one range of all ids where nothing is known. To be called before the snapshot
// under which the jobs are read.
RunningIds running_ids();

// A query's source of the rescue-indexed jobs in ranges that are the parameters `first` and `last`: rows of j, an alias
// of what `columns` are selected. `rest` follows the conditions.
#define RUNNING_JOBS(first, last, columns, rest) \
    "unnest(" first ", " last                    \
    ") AS r(first, last), "                      \
    "LATERAL (SELECT " columns                   \
    " FROM jobq.jobs j "                         \
    "WHERE j._rescue_indexed AND j.status = 'processing' AND j.id >= r.first AND j.id <= r.last " rest ") j "

}  // namespace jobq
