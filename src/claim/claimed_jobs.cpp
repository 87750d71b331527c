// See claimed_jobs.h.
#include "compat/pg.h"

#include "claim/claimed_jobs.h"
#include "compat/args.h"
#include "compat/json_text.h"
#include "core/retry.h"
#include "core/span.h"
#include "row/jobs_table.h"

#include <algorithm>
#include <cstdlib>

namespace jobq {

namespace {

int32 attempt_of(const ClaimedJob &job) {
    return core::next_attempt(DatumGetInt32(job_value(*job.jobs, kJobAttempts)));
}

template <int size>
void add(StringInfo out, const char (&literal)[size]) {
    appendBinaryStringInfo(out, literal, size - 1);
}

void add(StringInfo out, int64 value) {
    char digits[MAXINT8LEN + 1];
    appendBinaryStringInfo(out, digits, pg_lltoa(value, digits));
}

void add_text_column(StringInfo out, const ClaimedJob &job, JobColumn column) {
    add_json_string(out, view(DatumGetTextPP(job_value(*job.jobs, column))));
}

void add_json_column(StringInfo out, ToastReader *toasted, const ClaimedJob &job, JobColumn column) {
    bool is_null = false;
    const Datum value = job_value(*job.jobs, column, &is_null);
    if (is_null) {
        add(out, "null");
        return;
    }
    varlena *json = toasted->read(job.jobs->table.relation, value);
    add_json(out, reinterpret_cast<Jsonb *>(json));
    if (PointerGetDatum(json) != value) pfree(json);
}

// Adds the number of seconds since 1970, with six decimals.
void add_time_column(StringInfo out, const ClaimedJob &job, JobColumn column) {
    constexpr core::Micros kUnixEpoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
    const core::Micros time = DatumGetTimestampTz(job_value(*job.jobs, column)) + kUnixEpoch;
    const auto micros = static_cast<uint64>(time < 0 ? -time : time);
    char digits[MAXINT8LEN + 1];
    if (time < 0) add(out, "-");
    appendBinaryStringInfo(out, digits, pg_ulltoa_n(micros / USECS_PER_SEC, digits));
    add(out, ".");
    pg_ultostr_zeropad(digits, static_cast<uint32>(micros % USECS_PER_SEC), 6);
    appendBinaryStringInfo(out, digits, 6);
}

}  // namespace

bool RowSink::take(const ClaimedJob &job) {
    constexpr int kColumns = 14;
    Datum values[ResultSet::kMaxColumns];
    bool nulls[ResultSet::kMaxColumns] = {};
    // If an update has added columns to jobq.claimed_job, an older library returns NULL in these columns.
    std::fill(nulls + kColumns, nulls + ResultSet::kMaxColumns, true);
    const auto copy = [&](int to, JobColumn from) { values[to] = job_value(*job.jobs, from, &nulls[to]); };
    copy(0, kJobId);
    values[1] = Int64GetDatum(job.lease);
    copy(2, kJobQueue);
    copy(3, kJobKind);
    copy(4, kJobPayload);
    values[5] = Int32GetDatum(attempt_of(job));
    copy(6, kJobMaxAttempts);
    values[7] = Int32GetDatum(DatumGetInt16(job_value(*job.jobs, kJobPriority)));
    copy(8, kJobVersion);
    copy(9, kJobRunAt);
    copy(10, kJobCreatedAt);
    copy(11, kJobProgress);
    copy(12, kJobMetadata);
    values[13] = Int32GetDatum(core::heartbeat_seconds(job.timeout));
    results_->row(values, nulls);
    return true;
}

JsonSink::JsonSink() {
    initStringInfo(&text_);
    // Leaves room for the header of the datum.
    appendStringInfoSpaces(&text_, VARHDRSZ);
    add(&text_, "[");
}

bool JsonSink::take(const ClaimedJob &job) {
    const JobsTable &jobs = *job.jobs;
    StringInfo out = &text_;
    if (text_.data[text_.len - 1] == '}') add(out, ",");
    add(out, "{\"id\":\"");
    add(out, DatumGetInt64(job_value(jobs, kJobId)));
    add(out, "\",\"lease\":\"");
    add(out, job.lease);
    add(out, "\",\"queue\":");
    add_text_column(out, job, kJobQueue);
    add(out, ",\"kind\":");
    add_text_column(out, job, kJobKind);
    add(out, ",\"payload\":");
    add_json_column(out, &toasted_, job, kJobPayload);
    add(out, ",\"attempt\":");
    add(out, attempt_of(job));
    add(out, ",\"max_attempts\":");
    add(out, DatumGetInt32(job_value(jobs, kJobMaxAttempts)));
    add(out, ",\"priority\":");
    add(out, DatumGetInt16(job_value(jobs, kJobPriority)));
    add(out, ",\"version\":");
    add(out, DatumGetInt32(job_value(jobs, kJobVersion)));
    add(out, ",\"run_at\":");
    add_time_column(out, job, kJobRunAt);
    add(out, ",\"created_at\":");
    add_time_column(out, job, kJobCreatedAt);
    add(out, ",\"progress\":");
    add_json_column(out, &toasted_, job, kJobProgress);
    add(out, ",\"metadata\":");
    add_json_column(out, &toasted_, job, kJobMetadata);
    add(out, ",\"heartbeat_seconds\":");
    add(out, core::heartbeat_seconds(job.timeout));
    add(out, "}");
    return text_.len < kFullBytes;
}

Datum JsonSink::done() {
    toasted_.close();
    add(&text_, "]");
    SET_VARSIZE(text_.data, text_.len);
    return PointerGetDatum(text_.data);
}

}  // namespace jobq
