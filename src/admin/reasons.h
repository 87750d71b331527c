// The reasons that jobq_explain and jobq_explain_queue report: the form of a reason, and the checks that both functions
// share. Used by admin/explain.cpp and admin/explain_queue.cpp. Call these functions inside with_spi(). They change
// nothing and work on a standby.
#pragma once

#include "compat/pg.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "metrics/connected_workers.h"
#include "metrics/recent_filters.h"
#include "queues/directory.h"
#include "row/row_holders.h"

#include <string_view>

namespace jobq {

// All kinds of reasons. docs/reference/jobs.md describes them.
// clang-format off
#define JOBQ_REASONS(REASON) \
    REASON(Awaiting, "awaiting") \
    REASON(Batch, "batch") \
    REASON(Behind, "behind") \
    REASON(Blocked, "blocked") \
    REASON(Cancelling, "cancelling") \
    REASON(Chain, "chain") \
    REASON(Claimable, "claimable") \
    REASON(Copy, "copy") \
    REASON(DeadLetter, "dead_letter") \
    REASON(Dependency, "dependency") \
    REASON(Empty, "empty") \
    REASON(Expires, "expires") \
    REASON(Finished, "finished") \
    REASON(Full, "full") \
    REASON(Group, "group") \
    REASON(Halted, "halted") \
    REASON(Handler, "handler") \
    REASON(Limit, "limit") \
    REASON(Locked, "locked") \
    REASON(Paused, "paused") \
    REASON(Rate, "rate") \
    REASON(Refused, "refused") \
    REASON(Running, "running") \
    REASON(Scheduled, "scheduled") \
    REASON(Suspect, "suspect") \
    REASON(Unasked, "unasked") \
    REASON(Unblocking, "unblocking") \
    REASON(Unknown, "unknown") \
    REASON(Unserved, "unserved")
// clang-format on

// The names of the reasons, as the functions return them.
struct ReasonKind {
#define JOBQ_KIND(kind, name) static constexpr char kind[] = name;
    JOBQ_REASONS(JOBQ_KIND)
#undef JOBQ_KIND
};

struct Reason {
    const char *kind;              // a name in ReasonKind
    const char *detail;            // a sentence for the user
    Datum jobs = 0;                // bigint[]; 0: none
    Datum pids = 0;                // integer[]; 0: none
    TimestampTz until = DT_NOEND;  // when the reason stops applying without any action; DT_NOEND: unknown
};

// Receives reasons. Returns each reason as a result row of the SQL function, unless `results` is nullptr.
struct ReasonSink {
    ResultSet *results = nullptr;
    const char *first = nullptr;  // the name of the first reason; nullptr: none
    int count = 0;

    void take(const Reason &reason);
};

// Maximum number of jobs whose ids a reason contains, and maximum number of jobs that a reason counts.
constexpr int kNamedJobs = 100;
constexpr int64 kCounted = 10000;
// Returns the number as text, or "more than 10000" if it exceeds kCounted.
const char *count_text(int64 count);
// Returns the ids in the first column of the first kNamedJobs rows.
Datum ids_in(const Rows &rows);

// Reports what stops every claim: an error, a lock on jobq.jobs, or the fact that the database is a copy that has not
// been adopted. Returns whether claims are stopped.
bool explain_refusal(ReasonSink *sink);

// Checks whether an explanation can read its tables without waiting. If another session holds or requests a lock that
// makes readers of one of the tables wait, reports this and returns true. In that case, the caller must not read the
// tables. Otherwise, locks the tables for reading and returns false.
bool explain_unreadable(ReasonSink *sink);

// Reports that the queue is paused, that its limit lets no job start, or that every claim from it fails. Returns
// whether any of these is the case.
bool explain_queue_stops(std::string_view name, const Queue &queue, TimestampTz now, ReasonSink *sink);
// If the limit of a concurrency key or of a kind, or a named limit lets no job start, these functions report this and
// return true.
bool explain_key_stops(std::string_view name, std::string_view key, const Queue &queue, TimestampTz now,
                       ReasonSink *sink);
bool explain_kind_stops(std::string_view name, std::string_view kind, const Queue &queue, TimestampTz now,
                        ReasonSink *sink);
bool explain_limit_stops(std::string_view name, std::string_view limit, const Queue &queue, TimestampTz now,
                         ReasonSink *sink);

// What the jobs of a lane require of the worker that claims them.
struct Demand {
    std::string_view kind;
    int32 version;
    const std::string_view *required;  // canonical set
    int required_count;
};
// Reads the columns kind, version, and requires, which are consecutive and begin with `kind_column`.
Demand demand_at(const Row &row, int kind_column);

// What is known about the workers of a queue: the requests of the last minutes, and the workers that are connected.
struct Workers {
    std::string_view queue;
    RecentFilters recent;
    ConnectedWorkers connected;
};
Workers find_workers(std::string_view queue, TimestampTz now);

// If no worker has recently asked for jobs with these requirements, and no connected worker takes jobs of this kind,
// reports this and returns true; otherwise, returns false. `jobs` is the number of jobs that the report mentions; 0
// means that the report is about a single job.
bool explain_unasked(const Workers &workers, const Demand &demand, int64 jobs, TimestampTz now, ReasonSink *sink);

// When a worker last tried to claim jobs of a lane, or of one of several lanes.
struct LastRequest {
    TimestampTz fitting;  // by a worker whose filter accepts such jobs; DT_NOBEGIN: unknown
    TimestampTz unknown;  // by a worker whose filter is too long to be compared; DT_NOBEGIN: unknown
};
constexpr LastRequest kNoRequest = {DT_NOBEGIN, DT_NOBEGIN};
void add_last_request(const RecentFilters &recent, const Demand &demand, LastRequest *last);
// Returns the end of a message about jobs. The end begins with "; " and says when a worker last asked for such jobs
// (`last`), how many sessions are waiting for jobs in the queue, and, if any worker is connected, how many connected
// workers take such jobs (`demand`; nullptr: any jobs of the queue), and how many of these workers are busy. Returns ""
// if nothing is known.
const char *describe_requests(const Workers &workers, const Demand *demand, const LastRequest &last, TimestampTz now);

// Reports that a job is a suspect or, if `count` is greater than 1, that `count` jobs of the queue are suspects. Also
// names the suspects of the queue that are on trial: they are running, and other suspects must wait
// (leases/suspects.h). If `worker`, the worker that lost the job, is not nullptr, the report also names the suspect
// that this worker is running. Returns whether any suspect is on trial.
bool explain_suspects(std::string_view name, text *worker, int64 count, TimestampTz now, ReasonSink *sink);

// Reports which sessions (`holders`) have locked the rows of `count` jobs.
void explain_holders(const RowHolders &holders, Datum jobs, int64 count, ReasonSink *sink);

// If no background worker serves this database, reports this. `what` is the first part of the message, for example "it
// is due".
void explain_unserved(const char *what, ReasonSink *sink);

}  // namespace jobq
