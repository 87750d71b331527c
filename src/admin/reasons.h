// What keeps jobs from running, as rows for people: the form of the answer, and what a job and a queue have in common.
// Used by admin/explain.cpp and admin/explain_queue.cpp. Inside with_spi(); changes nothing, also on a standby.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "metrics/recent_filters.h"
#include "queues/directory.h"
#include "row/row_holders.h"

#include <string_view>

namespace jobq {

struct Reason {
    const char *word;    // for programs; the list is in docs/reference.md
    const char *detail;  // for people
    Datum jobs;          // bigint[], 0: none
    Datum pids;          // integer[], 0: none
    TimestampTz until;   // when it is over by itself; DT_NOEND: not known
};

class ReasonSink {
 public:
    virtual void take(const Reason &reason) = 0;

 protected:
    ~ReasonSink() = default;
};

// So many jobs are named at most, and so many counted.
constexpr int kNamedJobs = 100;
constexpr int64 kCounted = 10000;
// "more than 10000" where there are more.
const char *count_text(int64 count);
// The ids in the first column of the rows, so many at most.
Datum ids_in(const Rows &rows);

// Claims from the queue raise an error, or wait for a lock on the table, whatever job they are for. Returns whether
// they do.
bool explain_refusal(ReasonSink *sink);

// Somebody has locked a table that is read here so that not even a reader comes by, or waits for such a lock: all that
// can be said without waiting, too. Returns whether that is so; if not, all can be read from here on.
bool explain_unreadable(ReasonSink *sink);

// The queue is paused, or its own limit lets no job start. Returns whether one of these holds.
bool explain_queue_stops(std::string_view name, const Queue &queue, TimestampTz now, ReasonSink *sink);
// The limit of a concurrency key does.
bool explain_key_stops(std::string_view name, std::string_view key, const Queue &queue, TimestampTz now,
                       ReasonSink *sink);

// What jobs of a lane ask of their workers.
struct Demand {
    std::string_view kind;
    int32 version;
    const std::string_view *required;  // canonical set
    int required_count;
};
// From the columns kind, version and requires of a row, which follow each other.
Demand demand_at(const Row &row, int kind_column);
// No worker has asked for such jobs of the queue lately, by what recent_filters() says of it. `jobs`: how many there
// are; 0: one, which is not counted. Returns whether it says so.
bool explain_unasked(const RecentFilters &recent, const Demand &demand, int64 jobs, TimestampTz now, ReasonSink *sink);

// When a worker last asked for jobs of a lane, or of several lanes.
struct LastRequest {
    TimestampTz fitting;  // with a filter that takes such jobs; DT_NOBEGIN: not known
    TimestampTz unknown;  // with a filter too long to be compared; DT_NOBEGIN: not known
};
constexpr LastRequest kNoRequest = {DT_NOBEGIN, DT_NOBEGIN};
void add_last_request(const RecentFilters &recent, const Demand &demand, LastRequest *last);
// Returns "; " and when a worker last asked for such jobs, and how many sessions wait for jobs of the queue now; "" if
// nothing is known.
const char *describe_requests(std::string_view queue, const RecentFilters &recent, const LastRequest &last,
                              TimestampTz now);

// The job, or `count` jobs of the queue, are suspects. Names those that are on trial in the queue, or
// with `worker`, the one that lost the job (nullptr: not asked). Returns whether there are any.
bool explain_suspects(std::string_view name, text *worker, int64 count, TimestampTz now, ReasonSink *sink);

// Others hold the rows of these jobs, of which there are `count`.
void explain_holders(const RowHolders &holders, Datum jobs, int64 count, ReasonSink *sink);

// What the background worker would do in a moment is not done, since none serves this database.
void explain_unserved(const char *what, ReasonSink *sink);

}  // namespace jobq
