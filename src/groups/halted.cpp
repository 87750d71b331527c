// See halted.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "finish/dead_letters.h"
#include "groups/halted.h"
#include "job/change_job.h"
#include "log/rows.h"

namespace jobq {

namespace {

// SQL condition: the job j is the failed head of a group.
#define HEADS_HALTED_GROUP "j.status = 'failed' AND j._group_active IS NOT NULL"
// SQL condition: the group of the job j continues after a failure. Reads the tables, because the settings that sessions
// cache can be older than the snapshot.
#define CONTINUES                                                                                                  \
    "coalesce((SELECT k.group_on_failure FROM jobq.kind_settings k WHERE k.queue = j.queue AND k.kind = j.kind), " \
    "(SELECT s.group_on_failure FROM jobq.queue_settings s WHERE s.queue = j.queue)) IS DISTINCT FROM 'halt'"

// Selects the given failed heads whose groups do not halt. The second column is NULL if another session has locked the
// job.
Statement lock_continuing = {
    R"(SELECT u.id, x.id
       FROM unnest($1) AS u(id),
            LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" HEADS_HALTED_GROUP " AND " CONTINUES
    R"() c
            LEFT JOIN LATERAL (SELECT j.id FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" HEADS_HALTED_GROUP
    R"( FOR NO KEY UPDATE SKIP LOCKED) x ON true)",
    {INT8ARRAYOID}};

// Selects the heads of the next groups in the order of their numbers. The third column says whether the head has
// failed.
Statement read_heads = {
    R"(SELECT j.id, j._group_active, j.status = 'failed' FROM jobq.jobs j WHERE j._group_active > $1
       ORDER BY j._group_active FETCH FIRST $2 ROWS WITH TIES)",
    {INT8OID, INT8OID}};

Statement lock_to_skip = {"SELECT j.id FROM jobq.jobs j WHERE j.id = $1 AND " HEADS_HALTED_GROUP
                          " AND " IN_SCOPE("$2") " FOR NO KEY UPDATE",
                          {INT8OID, TEXTARRAYOID}};

// Ends the halts of the given jobs whose groups do not halt any more.
void let_continue(Datum *ids, int count, Unblocking *done) {
    if (count == 0) return;
    const Rows rows = run(lock_continuing, Params().add(array_of(ids, count, INT8OID)));
    Notes<Datum> heads = {};
    for (uint64 i = 0; i < rows.size(); i++) {
        if (rows[i].is_null(2))
            look_again({rows[i].int64_at(1), kNoJob, Blocker::Halt});
        else
            heads.add(rows[i].get(2));
    }
    const core::Event event = {core::EventKind::PassedOver, Max(done->now, GetCurrentTimestamp())};
    change_all_or_each(
        heads.count, [&](int first, int n) { apply_event(heads.items + first, n, event); },
        [&](int) { done->outcome.done++; },
        [&](int i, const FailureText &failure) {
            look_again({DatumGetInt64(heads.items[i]), kNoJob, Blocker::Halt});
            leave_out(&done->outcome, DatumGetInt64(heads.items[i]), failure);
        });
}

}  // namespace

bool skip_job(int64 id, const QueueScope *scope, TimestampTz now) {
    const Rows locked = run(lock_to_skip, Params().add(Int64GetDatum(id)).add_if(scope != nullptr, scope_array(scope)));
    if (locked.size() == 0) return false;
    Datum job = Int64GetDatum(id);
    apply_event(&job, 1, {core::EventKind::PassedOver, now});
    move_to_dead_letters(&job, 1);
    return true;
}

void look_at_halted(const Unblocked *published, int count, Unblocking *done) {
    Datum *ids = allocate_array<Datum>(count);
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(published[i].key);
    let_continue(ids, count, done);
}

bool search_halted(SearchPlace *place, int limit, Unblocking *done) {
    const Rows heads = run(read_heads, Params().add(Int64GetDatum(place->behind)).add(Int64GetDatum(limit)));
    Datum *failed = allocate_array<Datum>(heads.size());
    int count = 0;
    for (uint64 i = 0; i < heads.size(); i++) {
        place->behind = heads[i].int64_at(2);
        if (heads[i].bool_at(3)) failed[count++] = heads[i].get(1);
    }
    let_continue(failed, count, done);
    return heads.size() >= static_cast<uint64>(limit);
}

}  // namespace jobq
