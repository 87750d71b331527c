// See shard.h.
#include "compat/pg.h"

#include "compat/spi.h"
#include "row/jobs_table.h"
#include "row/shard.h"

extern "C" {
#include "catalog/pg_sequence.h"
}

namespace jobq {

namespace {

Statement find_other_id = {
    "SELECT j.id FROM jobq.jobs j WHERE j.id % $1 <> $2 ORDER BY j.id LIMIT 1", {INT8OID, INT8OID}, Planning::Free};

// Selects the last id that the sequence has returned, or 0 if it has returned no id.
Statement find_last_id = {
    "SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM jobq.jobs_id_seq s",
    {},
    Planning::Free};

}  // namespace

int own_shard() {
    HeapTuple found = SearchSysCache1(SEQRELID, ObjectIdGetDatum(job_id_sequence()));
    if (!HeapTupleIsValid(found)) elog(ERROR, "jobq: jobq.jobs has no sequence");
    const auto *sequence = reinterpret_cast<Form_pg_sequence>(GETSTRUCT(found));
    const int shard = sequence->seqincrement == core::kShards ? core::shard_of(sequence->seqstart) : core::kNoShard;
    ReleaseSysCache(found);
    return shard;
}

void require_own_shard(int64 id) {
    const int shard = own_shard();
    if (shard == core::kNoShard || core::shard_of(id) == shard) return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("id %lld belongs to shard %d, but this database is shard %d", static_cast<long long>(id),
                           core::shard_of(id), shard),
                    errhint("Let the database generate the id.")));
}

void refuse_other_ids(int shard) {
    run_text("LOCK TABLE jobq.jobs IN SHARE ROW EXCLUSIVE MODE");
    const Params params = Params().add(Int64GetDatum(core::kShards)).add(Int64GetDatum(shard));
    PushActiveSnapshot(GetLatestSnapshot());
    const Rows others = read(find_other_id, params, GetActiveSnapshot());
    PopActiveSnapshot();
    if (others.size() == 0) return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the database has jobs whose ids do not belong to shard %d", shard),
             errdetail("One of them is job %lld.", static_cast<long long>(others[0].int64_at(1))),
             errhint("Wait until these jobs have finished and delete them, or use another database for the shard.")));
}

void make_shard(int shard) {
    // ALTER SEQUENCE waits for transactions that have used the sequence and makes sessions discard their cached ids.
    run_text(psprintf("ALTER SEQUENCE jobq.jobs_id_seq INCREMENT BY %d START WITH %lld MAXVALUE %lld", core::kShards,
                      static_cast<long long>(core::next_id_of(shard, 0)),
                      static_cast<long long>(core::kLastShardedId)));
    const int64 last = run(find_last_id, Params())[0].int64_at(1);
    run_text(psprintf("ALTER SEQUENCE jobq.jobs_id_seq RESTART WITH %lld",
                      static_cast<long long>(core::next_id_of(shard, last))));
}

void leave_shard() {
    run_text(psprintf("ALTER SEQUENCE jobq.jobs_id_seq INCREMENT BY 1 START WITH 1 MAXVALUE %lld",
                      static_cast<long long>(core::kLastId)));
}

}  // namespace jobq
