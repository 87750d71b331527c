// Waits for the latch of the process, with a wait event that pg_stat_activity shows.
#pragma once

#include "compat/pg.h"
#include "core/clock.h"

namespace jobq {

// What a process waits for. PostgreSQL 17 and later show the name of the event in pg_stat_activity.wait_event; earlier
// versions show "Extension".
enum class WaitEvent {
    LauncherMain,     // the launcher: for the next round of a database
    WorkerMain,       // a background worker: for work in its database
    ExecutorMain,     // an executor: for a job of a handler
    ExecutorRetry,    // an executor: before it tries again to record the end of a job
    Wait,             // jobq_wait(): for claimable jobs
    WaitJob,          // jobq_wait_job(): for the end of a job
    DatabaseCommand,  // CREATE, ALTER, and DROP DATABASE: for the background workers of the database to leave
};

// Waits until the latch is set or the span has passed, and then resets the latch. Rounds the span up to whole
// milliseconds. Exits the process if the postmaster has died. The caller must process interrupts.
void wait_for_latch(core::Micros span, WaitEvent event);

}  // namespace jobq
