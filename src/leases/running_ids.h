// Ranges that contain the ids of all rescue-indexed jobs. A search for such jobs uses these ranges to skip the index
// entries of jobs that have ended.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Ranges of ids in ascending order: the first and the last id of each, both included.
struct RunningIds {
    Datum first, last;  // arrays
};

// Returns the current ranges (lanes/refresh.h), or one range of all ids if the ranges are not known. Must be called
// before taking the snapshot under which the jobs are read.
RunningIds running_ids();

// FROM items of a query that reads the rescue-indexed jobs in the ranges given by the parameters `first` and `last`.
// The query selects `columns` from the alias `j`. `rest` is appended to the WHERE clause.
#define RUNNING_JOBS(first, last, columns, rest) \
    "unnest(" first ", " last                    \
    ") AS r(first, last), "                      \
    "LATERAL (SELECT " columns                   \
    " FROM jobq.jobs j "                         \
    "WHERE j._rescue_indexed AND j.status = 'processing' AND j.id >= r.first AND j.id <= r.last " rest ") j "

}  // namespace jobq
