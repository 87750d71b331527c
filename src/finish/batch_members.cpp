// See batch_members.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/own_locks.h"
#include "compat/relation_changes.h"
#include "compat/spi.h"
#include "finish/batch_members.h"
#include "log/transaction_log.h"
#include "row/owner.h"
#include "row/shard.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement get_batch = {"SELECT b.created_by, b.sealed_at IS NOT NULL FROM jobq.batch_settings b WHERE b.id = $1",
                       {INT8OID}};
Statement get_batch_of_job = {"SELECT coalesce(j.batch_id, 0) FROM jobq.jobs j WHERE j.id = $1", {INT8OID}};
Statement count_gone = {
    R"(INSERT INTO jobq.batch_counts (batch_id, completed, failed, cancelled)
       SELECT u.batch_id, count(*) FILTER (WHERE u.status = 'completed'), count(*) FILTER (WHERE u.status = 'failed'),
              count(*) FILTER (WHERE u.status NOT IN ('completed', 'failed'))
       FROM unnest($1, $2) AS u(batch_id, status) GROUP BY u.batch_id)",
    {INT8ARRAYOID, TEXTARRAYOID}};
Statement delete_batches = {"DELETE FROM jobq.batch_settings", {}, Planning::Free};
Statement delete_counts = {"DELETE FROM jobq.batch_counts", {}, Planning::Free};

// The open batch that this session last checked in join_batch(), so that a session that adds members one by one reads
// the batch only once. While a transaction holds the lock, no other session can seal the batch. stop_joining() sends an
// invalidation message at the commit, before it releases the lock, so a session that acquires the lock afterwards
// receives the message. The message is about an index, because sessions reload the entry of an index at little cost. A
// message about the table would also invalidate plans.
struct Joined {
    int64 batch;
    Oid user;        // the user whose privileges were checked
    bool committed;  // the batch is known to be committed, so later transactions can use this entry
};
Joined joined = {0, InvalidOid, false};
Oid batches_index = InvalidOid;
uint64 changes_of_batches = 0;

void on_batch_change(Oid relation) {
    if (relation != InvalidOid && relation != batches_index) return;
    joined.batch = 0;
    changes_of_batches++;
}

void find_batches_index() {
    batches_index = get_relname_relid("batch_settings_pkey", get_namespace_oid("jobq", false));
}

void forget_joined_everywhere() {
    find_batches_index();
    CacheInvalidateRelcacheByRelid(batches_index);
}

bool is_joined(int64 batch, const QueueScope *scope, bool locked_before) {
    if (joined.batch != batch) return false;
    if (locked_before && joined.user == GetUserId()) return true;
    return joined.committed && scope == nullptr;
}

[[noreturn]] void refuse_unknown(int64 batch) {
    const int shard = own_shard();
    if (shard != core::kNoShard && core::shard_of(batch) != shard)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("batch %lld is on shard %d, but the job is enqueued on shard %d",
                               static_cast<long long>(batch), core::shard_of(batch), shard),
                        errhint("All members of a batch must be on the same shard.")));
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"batch_id\" names batch %lld, which does not exist", static_cast<long long>(batch)),
             errhint("Use the id that jobq_create_batch() returned.")));
    pg_unreachable();
}

}  // namespace

BatchUse look_up_batch(int64 batch, const QueueScope *scope) {
    BatchUse use = {};
    NameData creator = {};
    with_owner_spi_now([&] {
        const Rows rows = read(get_batch, Params().add(Int64GetDatum(batch)), GetActiveSnapshot());
        if (rows.size() == 0) return;
        use.exists = true;
        use.sealed = rows[0].bool_at(2);
        text_to_cstring_buffer(DatumGetTextPP(rows[0].get(1)), NameStr(creator), NAMEDATALEN);
    });
    if (!use.exists || scope == nullptr) {
        use.allowed = use.exists;
        return use;
    }
    const Oid role = get_role_oid(NameStr(creator), true);
    use.allowed = OidIsValid(role) && has_rights_of(role);
    return use;
}

void refuse_batch_use(int64 batch) {
    ereport(ERROR,
            (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
             errmsg("permission denied for batch %lld", static_cast<long long>(batch)),
             errdetail("Your role is restricted to some queues, and another role created the batch."),
             errhint("Use the role that created the batch. A worker that holds the lease of a member can also add "
                     "jobs to the batch with jobq_spawn().")));
    pg_unreachable();
}

void join_batch(int64 batch, const QueueScope *scope, int64 held_batch) {
    const LOCKTAG tag = own_lock(OwnLock::Batch, batch);
    const LockAcquireResult lock = LockAcquire(&tag, ShareLock, false, false);
    AcceptInvalidationMessages();
    if (is_joined(batch, scope, lock == LOCKACQUIRE_ALREADY_HELD)) return;
    joined.batch = 0;
    find_batches_index();
    on_relation_change<on_batch_change>();
    const uint64 changes = changes_of_batches;
    // Without a transaction ID, the transaction has changed nothing, so it sees only committed batches.
    const bool committed = !TransactionIdIsValid(GetTopTransactionIdIfAny());
    const BatchUse use = look_up_batch(batch, scope);
    if (!use.exists) refuse_unknown(batch);
    if (!use.allowed && held_batch != batch) refuse_batch_use(batch);
    if (use.sealed)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("batch %lld has been sealed", static_cast<long long>(batch)),
                        errhint("Add all members before you call jobq_seal_batch(), or create another batch.")));
    if (use.allowed && changes == changes_of_batches) joined = {batch, GetUserId(), committed};
}

void stop_joining(int64 batch) {
    joined.batch = 0;
    const LOCKTAG tag = own_lock(OwnLock::Batch, batch);
    LockAcquire(&tag, ExclusiveLock, false, false);
    forget_joined_everywhere();
}

int64 batch_of_job(int64 job) {
    const Rows rows = run(get_batch_of_job, Params().add(Int64GetDatum(job)));
    return rows.size() == 0 ? 0 : rows[0].int64_at(1);
}

void count_gone_members(const GoneMember *members, int count) {
    if (count == 0) return;
    ArrayColumn batches(count), statuses(count);
    for (int i = 0; i < count; i++) {
        batches.add(Int64GetDatum(members[i].batch));
        statuses.add(CStringGetTextDatum(core::status_name(members[i].status)));
    }
    run(count_gone, Params().add(batches.array(INT8OID)).add(statuses.array(TEXTOID)));
    log_member_ended();
}

void forget_all_batches() {
    if (is_in_use("batch_settings")) {
        run(delete_batches, Params());
        forget_joined_everywhere();
    }
    if (is_in_use("batch_counts")) run(delete_counts, Params());
}

}  // namespace jobq
