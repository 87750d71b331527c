// The list of connected workers: what each worker has said about itself with the argument `worker_info`, when it last
// called a function, and when it last claimed jobs. A worker disappears from the list if it neither waits nor runs
// jobs, and has not called any function for the time that its worker_info names. The list is in shared memory, so it is
// empty if the library is not preloaded, and after a restart until the workers call again.
//
// A session records the same worker at most once per second, so most calls with a worker_info only compare it with that
// of the session's last call. Calls without a worker_info cost one test for NULL.
#pragma once

#include "compat/pg.h"
#include "metrics/worker_info.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Maximum size of a worker_info.
constexpr int kMaxWorkerInfoKb = 4;

// Returns the worker_id in a worker_info. Checks the object unless it equals that of the session's last call.
std::string_view known_worker_id(const Jsonb *info);

// Records that a worker has called a function, and whether the function has claimed jobs. If the worker_info says that
// the worker expires at once, removes the worker. Does nothing if `info` is nullptr.
void note_given_worker(const Jsonb *info, bool claimed);
inline void note_worker(const Jsonb *info, bool claimed = false) {
    if (info != nullptr) note_given_worker(info, claimed);
}

enum class WorkerState : uint8 {
    Waiting,  // a session waits for a job in the name of the worker
    Busy,     // the worker runs jobs
    Idle,     // neither: the worker is between two calls
};

struct ConnectedWorker {
    WorkerInfo info;
    TimestampTz started_at;  // as stated by the worker, or else the time of its first call
    TimestampTz last_seen;
    TimestampTz last_claim;  // DT_NOBEGIN: unknown
    WorkerState state;
    int64 running;   // number of jobs that it holds
    bool is_silent;  // it has not called any function for the time that its worker_info names

    bool is_gone() const { return is_silent && state == WorkerState::Idle; }
};
struct ConnectedWorkers {
    ConnectedWorker *items;
    int count;
};

// Returns the connected workers of this database, ordered by worker_id. The result is allocated with palloc. Reads the
// running jobs if there are any workers. Call it inside with_spi().
ConnectedWorkers connected_workers();

// Returns whether a worker takes jobs of a queue.
bool serves(const ConnectedWorker &worker, std::string_view queue);
// Returns whether a worker takes jobs of a kind, as far as its worker_info says.
bool handles(const ConnectedWorker &worker, std::string_view kind);

// main/jobq.cpp calls these functions to set up and monitor this part of shared memory.
Size connected_workers_size();
void make_connected_workers(void *memory, bool fresh);
SharedUsage connected_workers_usage();

}  // namespace jobq
