// The store, producers' side: how jobs enter jobq.jobs, by a call or by hand.
#pragma once

#include "core/job.h"
#include "pg/pg.h"
#include "pg/spi.h"

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

// Inserts one job; returns its id. Inside with_spi().
int64 insert_job(const JobSpec &spec, TimestampTz now);

// Inserts jobs that share everything but what the arrays give: payloads, and, where not nullptr, run_ats and
// priorities. Returns a row (id) per job, in the order of the payloads. Inside with_spi().
struct JobColumns {
    Datum payloads;    // jsonb[]
    Datum run_ats;     // timestamptz[]
    Datum priorities;  // int4[]
    bool has_run_ats;
    bool has_priorities;
};
Rows insert_jobs(const JobSpec &shared, const JobColumns &columns, int count, TimestampTz now);

// Makes a job that somebody's own UPDATE changed consistent again: what follows from its status, and its lane.
void settle_job(int64 id, int64 lane, core::Micros default_timeout);

}  // namespace jobq
