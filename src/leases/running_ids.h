// The ranges of ids in which rescue-indexed jobs can be, so that a search for them does not pass the entries of jobs
// that have ended.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Ranges of ids in ascending order: the first and the last id of each, both included.
struct RunningIds {
    Datum first, last;  // arrays
};

// Reads the current ranges (lanes/refresh.h); one range of all ids if nothing is known. Must be called before the
// snapshot under which the jobs are read.
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
