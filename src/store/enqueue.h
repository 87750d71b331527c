// The store, producers' side: how jobs enter jobq.jobs, by a call or by hand.
#pragma once

#include "core/job.h"
#include "pg/pg.h"
#include "pg/spi.h"
#include "store/jobs_table.h"

namespace jobq {

// One job to be enqueued, checked. Pointers live in the caller's memory context.
struct JobSpec {
    text *queue;
    text *kind;
    Datum payload;  // jsonb
    int16 priority;
    TimestampTz run_at;
    int32 max_attempts;
    int32 version;
    ArrayType *required;          // may be nullptr
    Interval *heartbeat_timeout;  // nullptr: the queue's
    Datum metadata;               // jsonb
    bool has_metadata;
};

// What differs between the jobs of one call; nullptr: they have it from the JobSpec.
struct JobColumns {
    const Datum *payloads;    // jsonb
    const Datum *run_ats;     // timestamptz
    const Datum *priorities;  // int4, checked to fit smallint
};

// Inserts jobs into the open table; ids gets theirs, in the order of the payloads.
void insert_jobs(JobsTable *jobs, const JobSpec &spec, const JobColumns &columns, int count, TimestampTz now,
                 int64 *ids);

// Makes a job that somebody's own UPDATE changed consistent again: what follows from its status, and its lane.
void settle_job(int64 id, int64 lane, core::Micros default_timeout);

}  // namespace jobq
