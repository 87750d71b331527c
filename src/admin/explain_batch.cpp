// Explains how a job belongs to a batch: as a member or as a callback. See explain.h.
#include "compat/pg.h"

#include "admin/explain.h"
#include "compat/args.h"

namespace jobq {

namespace {

// Selects the batch of job $1: its id, and whether it exists, has finished, and has been sealed.
Statement read_batch = {
    R"(SELECT j.batch_id, b.id IS NOT NULL, b.finished_at IS NOT NULL, b.sealed_at IS NOT NULL
       FROM jobq.jobs j LEFT JOIN jobq.batch_settings b ON b.id = j.batch_id
       WHERE j.id = $1 AND j.batch_id IS NOT NULL)",
    {INT8OID}};
Statement count_unfinished = {
    R"(SELECT count(*)
       FROM (SELECT FROM jobq.jobs j WHERE j.batch_id = $1 AND j.status <= 'processing' LIMIT $2) u)",
    {INT8OID, INT8OID}};

// Selects the batch of which job $1 is a callback. The metadata of a callback contains the id of the batch. Other jobs
// can have any value there.
Statement find_called_by = {
    R"(SELECT b.id
       FROM (SELECT CASE WHEN j.metadata ->> 'batch' ~ '^[1-9][0-9]{0,17}$' THEN (j.metadata ->> 'batch')::bigint END
             FROM jobq.jobs j WHERE j.id = $1 OFFSET 0) m(batch)
            JOIN jobq.batch_settings b ON b.id = m.batch
       WHERE $1 = ANY (b.callbacks))",
    {INT8OID}};

const char *state_of(const Row &batch) {
    if (!batch.bool_at(2)) return "which does not exist";
    if (batch.bool_at(3)) return "which has finished";
    const int64 unfinished =
        read(count_unfinished, Params().add(batch.get(1)).add(Int64GetDatum(kCounted + 1)))[0].int64_at(1);
    return psprintf("which is %s; %s member%s not ended", batch.bool_at(4) ? "sealed" : "open", count_text(unfinished),
                    unfinished == 1 ? " has" : "s have");
}

}  // namespace

void explain_batch(int64 job_id, ReasonSink *sink) {
    const Rows joined = read(read_batch, Params().add(Int64GetDatum(job_id)));
    if (joined.size() > 0)
        sink->take({ReasonKind::Batch, psprintf("it is a member of batch %lld, %s",
                                                static_cast<long long>(joined[0].int64_at(1)), state_of(joined[0]))});
    const Rows called_by = read(find_called_by, Params().add(Int64GetDatum(job_id)));
    if (called_by.size() > 0)
        sink->take({ReasonKind::Batch,
                    psprintf("it is a callback of batch %lld", static_cast<long long>(called_by[0].int64_at(1)))});
}

}  // namespace jobq
