// Ranges of ids that may contain rescue-indexed jobs, so that a search skips the index entries of ended jobs.
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

// FROM item of a query: the rescue-indexed jobs in the ranges given by the parameters `first` and `last`. `columns` are
// selected from the alias `j`. `rest` follows the conditions.
#define RUNNING_JOBS(first, last, columns, rest) \
    "unnest(" first ", " last                    \
    ") AS r(first, last), "                      \
    "LATERAL (SELECT " columns                   \
    " FROM jobq.jobs j "                         \
    "WHERE j._rescue_indexed AND j.status = 'processing' AND j.id >= r.first AND j.id <= r.last " rest ") j "

}  // namespace jobq
