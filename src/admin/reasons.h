// The reasons that jobq_explain and jobq_explain_queue report: the form of a reason, and the checks that both functions
// share. Used by admin/explain.cpp and admin/explain_queue.cpp. Call these functions inside with_spi(). They change
// nothing and work on a standby.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "metrics/recent_filters.h"
#include "queues/directory.h"
#include "row/row_holders.h"

#include <string_view>

namespace jobq {

// All kinds of reasons. docs/reference.md describes them.
// clang-format off
#define JOBQ_REASONS(REASON) \
    REASON(Awaiting, "awaiting") \
    REASON(Behind, "behind") \
    REASON(Blocked, "blocked") \
    REASON(Cancelling, "cancelling") \
    REASON(Chain, "chain") \
    REASON(Claimable, "claimable") \
    REASON(Copy, "copy") \
    REASON(DeadLetter, "dead_letter") \
    REASON(Dependency, "dependency") \
    REASON(Empty, "empty") \
    REASON(Finished, "finished") \
    REASON(Full, "full") \
    REASON(Group, "group") \
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

enum class ReasonKind : uint8 {
#define JOBQ_KIND(kind, name) kind,
    JOBQ_REASONS(JOBQ_KIND)
#undef JOBQ_KIND
};
const char *reason_name(ReasonKind kind);

struct Reason {
    ReasonKind kind;
    const char *detail;            // a sentence for the user
    Datum jobs = 0;                // bigint[]; 0: none
    Datum pids = 0;                // integer[]; 0: none
    TimestampTz until = DT_NOEND;  // when the reason stops applying without any action; DT_NOEND: unknown
};

class ReasonSink {
 public:
    virtual void take(const Reason &reason) = 0;

 protected:
    ~ReasonSink() = default;
};

// Maximum number of jobs whose ids a reason contains, and maximum number of jobs that a reason counts.
constexpr int kNamedJobs = 100;
constexpr int64 kCounted = 10000;
// Returns the number as text, or "more than 10000" if it exceeds kCounted.
const char *count_text(int64 count);
// Returns the ids in the first column of the rows, at most kNamedJobs.
Datum ids_in(const Rows &rows);

// Reports that all claims raise an error or wait for a lock on a table, if this is so. Returns whether this is so.
bool explain_refusal(ReasonSink *sink);

// Reports that another session holds, or is waiting for, a lock on one of the tables that an explanation reads, if even
// readers would wait for that lock. Returns whether this is so. If it is, the caller must not read the tables, because
// it would wait. If it is not, this session has locked the tables, so it can read all of them.
bool explain_unreadable(ReasonSink *sink);

// Reports that the queue is paused or that its own limit lets no job start. Returns whether either is the case.
bool explain_queue_stops(std::string_view name, const Queue &queue, TimestampTz now, ReasonSink *sink);
// Does the same for the limit of a concurrency key.
bool explain_key_stops(std::string_view name, std::string_view key, const Queue &queue, TimestampTz now,
                       ReasonSink *sink);

// What the jobs of a lane require of the worker that claims them.
struct Demand {
    std::string_view kind;
    int32 version;
    const std::string_view *required;  // canonical set
    int required_count;
};
// Reads the columns kind, version, and requires, which follow one another from `kind_column` on.
Demand demand_at(const Row &row, int kind_column);
// If recent_filters() shows that no worker has asked for such jobs of the queue lately, reports this and returns true.
// Otherwise, returns false. `jobs` is the number of such jobs; 0 means one job, and then the report contains no number.
bool explain_unasked(const RecentFilters &recent, const Demand &demand, int64 jobs, TimestampTz now, ReasonSink *sink);

// When a worker last tried to claim jobs of a lane, or of one of several lanes.
struct LastRequest {
    TimestampTz fitting;  // by a worker whose filter accepts such jobs; DT_NOBEGIN: unknown
    TimestampTz unknown;  // by a worker whose filter is too long to be compared; DT_NOBEGIN: unknown
};
constexpr LastRequest kNoRequest = {DT_NOBEGIN, DT_NOBEGIN};
void add_last_request(const RecentFilters &recent, const Demand &demand, LastRequest *last);
// Returns the end of a sentence: "; ", when a worker last asked for such jobs, and how many sessions now wait for jobs
// of the queue. Returns "" if nothing is known.
const char *describe_requests(std::string_view queue, const RecentFilters &recent, const LastRequest &last,
                              TimestampTz now);

// Reports that the job, or `count` jobs of the queue, are suspects. Names the suspects of the queue that are on trial,
// that is, that run now while other suspects must wait (leases/suspects.h). Also names the suspect that `worker` runs
// now; `worker` is the worker that lost the job, or nullptr. Returns whether any suspect is on trial.
bool explain_suspects(std::string_view name, text *worker, int64 count, TimestampTz now, ReasonSink *sink);

// Reports the sessions that have locked the rows of these `count` jobs.
void explain_holders(const RowHolders &holders, Datum jobs, int64 count, ReasonSink *sink);

// Reports that no background worker serves this database, if this is so. `what` is the part of the sentence that says
// what the worker would react to, for example "it is due".
void explain_unserved(const char *what, ReasonSink *sink);

}  // namespace jobq
