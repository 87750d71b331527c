// Returns claimed jobs as rows or as JSON.
#pragma once

#include "claim/claim.h"
#include "compat/pg.h"
#include "compat/result_set.h"
#include "table/toast_reader.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

// Adds each claimed job to the result as a row of the type jobq.claimed_job.
class RowSink : public ClaimSink {
 public:
    explicit RowSink(ResultSet *results) : results_(results) {}
    bool take(const ClaimedJob &job) override;

 private:
    ResultSet *results_;
};

// Adds each claimed job as an object to a JSON array. The keys of the objects are the columns of jobq.claimed_job. The
// id and the lease are strings, because many JSON parsers read numbers as floating-point numbers, which do not have 64
// bits of precision. Times are in seconds since 1970. When the text has reached kFullBytes, the claim takes no more
// jobs, because a value cannot be larger than 1 GB, and some drivers cannot read texts of several hundred megabytes.
class JsonSink : public ClaimSink {
 public:
    static constexpr int kFullBytes = 64 * 1024 * 1024;

    JsonSink();
    bool take(const ClaimedJob &job) override;
    // Ends the array and returns it as a datum of the type json.
    Datum done();

 private:
    StringInfoData text_;
    ToastReader toasted_;
};

}  // namespace jobq
