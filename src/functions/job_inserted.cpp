// The triggers of an INSERT into jobq.jobs: they make a plain INSERT or COPY by a DBA, and a dump, as good as a call.
#include "pg/pg.h"

#include "core/fairness.h"
#include "core/group.h"
#include "core/retry.h"
#include "functions/job_row.h"
#include "functions/payload.h"
#include "pg/args.h"
#include "pg/rights.h"
#include "pg/spi.h"
#include "shared/counting.h"
#include "shared/publish.h"
#include "shared/unblock.h"
#include "store/depth.h"
#include "store/directory.h"
#include "store/jobs_table.h"
#include "store/limit_settings.h"
#include "store/unique.h"

#include <algorithm>
#include <iterator>

namespace jobq {

namespace {

// A value of the column's own enum type, so that no name is looked up.
Datum status_value(TupleDesc desc, core::JobStatus status) {
    const Oid type = SPI_gettypeid(desc, SPI_fnumber(desc, "status"));
    return DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(type));
}

// An INSERT by hand needs room as an enqueue does. One whose unique key is taken is refused for that, by the index.
void ask_for_room(const JobRow &row) {
    const std::string_view name = text_of(row, "queue");
    if (find_queue(name)->max_depth == 0 || !core::is_waiting(status_of(row))) return;
    const TimestampTz now = GetCurrentTimestamp();
    if (row.has("unique_key")) {
        WantedKey key = {};
        key.queue = make_text(name);
        key.unique_key = DatumGetTextPP(row.get("unique_key"));
        find_holders(&key, 1, now);
        if (key.holder != 0) return;
    }
    make_room(name, 1, now);
}

void fill(JobRow *row, TupleDesc desc) {
    const TimestampTz now = GetCurrentTimestamp();
    row->default_to("created_at", TimestampTzGetDatum(now));
    row->default_to("kind", PointerGetDatum(make_text("")));
    row->default_to("payload", DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
    row->default_to("priority", Int16GetDatum(0));
    row->default_to("version", Int32GetDatum(0));
    row->default_to("attempts", Int32GetDatum(0));
    row->default_to("lost_attempts", Int32GetDatum(0));
    row->default_to("run_at", TimestampTzGetDatum(now));
    if (!row->has("max_attempts"))
        row->set("max_attempts", Int32GetDatum(find_queue(text_of(*row, "queue"))->max_attempts));
    if (!row->has("status"))
        row->set("status", status_value(desc, core::waiting_status(DatumGetTimestampTz(row->get("run_at")), now)));
}

// The place of a job that is inserted by hand; `restored`: it brings what a dump has kept.
void derive_group(JobRow *row, TupleDesc desc, core::JobStatus *status, bool restored) {
    core::GroupPlace place = core::GroupPlace::None;
    const bool active = row->has("group_active");
    const bool grouped = row->has("group_key");
    if (grouped && !core::place_inserted(*status, restored, active, &place)) refuse_turn();
    // It waited for its dependencies: their edges are restored as well.
    if (restored && *status == core::JobStatus::Blocked && !row->has("group_waiting")) place = core::GroupPlace::None;
    const Datum group = Int64GetDatum(grouped ? group_of(*row) : 0);
    row->set_or_clear("group_waiting", place == core::GroupPlace::Waiting, group);
    row->set_or_clear("group_active", place == core::GroupPlace::Active, group);
    if (place != core::GroupPlace::Waiting || *status == core::JobStatus::Blocked) return;
    *status = core::JobStatus::Blocked;
    row->set("status", status_value(desc, *status));
}

// What jobq_enqueue leaves to the producer. All else is jobq's: of who has no rights of the table's owner nothing is
// taken but these, and a status in which jobs wait.
constexpr const char *kProducersColumns[] = {"queue",       "kind",       "payload",           "metadata",
                                             "requires",    "priority",   "version",           "max_attempts",
                                             "run_at",      "unique_key", "unique_for",        "group_key",
                                             "max_runtime", "status",     "heartbeat_timeout", "concurrency_key"};

bool is_producers(const char *column) {
    return std::any_of(std::begin(kProducersColumns), std::end(kProducersColumns),
                       [&](const char *known) { return strcmp(known, column) == 0; });
}

void check_producer(JobRow *row, TupleDesc desc) {
    require_known_queue(text_of(*row, "queue"));
    for (const char *column : {"payload", "metadata"})
        if (row->has(column)) check_json_size(row->get(column), column);
    for (int i = 0; i < kJobColumns; i++) {
        const char *column = NameStr(TupleDescAttr(desc, i)->attname);
        if (!is_producers(column) && row->has(column)) row->clear(column);
    }
    if (row->has("status") && !core::is_waiting(status_of(*row))) row->clear("status");
    // Not the one that the statement has given, or has drawn, which look the same from here.
    row->set("id", Int64GetDatum(next_job_id()));
}

// What follows from other columns is set whatever the INSERT says: a dump may come from a database with another
// encoding, whose lanes have other ids. Leases and times are kept where they make sense.
void derive(JobRow *row, TupleDesc desc, bool restored) {
    const Datum run_at = row->get("run_at");
    const Datum now = TimestampTzGetDatum(GetCurrentTimestamp());
    core::JobStatus status = status_of(*row);
    // Pending means claimable now.
    const core::Micros due = DatumGetTimestampTz(run_at);
    if (status == core::JobStatus::Pending && due > DatumGetTimestampTz(now)) {
        status = core::JobStatus::Scheduled;
        row->set("status", status_value(desc, status));
    }
    derive_group(row, desc, &status, restored);
    row->set("lane", Int64GetDatum(lane_of(*row)));
    row->set_or_clear("ready_at", status == core::JobStatus::Pending, run_at);
    row->set_or_clear("due_at", status == core::JobStatus::Scheduled, run_at);
    const bool holds_key = row->has("unique_key") && !core::is_finished(status);
    row->set_or_clear("unique_held", holds_key, holds_key ? row->get("unique_key") : Datum(0));
    const bool running = status == core::JobStatus::Processing;
    row->set_or_clear("watched", running, BoolGetDatum(true));
    if (core::is_finished(status))
        row->default_to("finished_at", now);
    else
        row->clear("dead_from");
    // Only a claim, or the tick, gives slots: it knows which are free.
    for (const char *column : {"queue_slot", "key_slot", "slot_seq"}) row->clear(column);
    // The transaction of that number is another cluster's, if this comes from a dump.
    row->clear("claim_xid");
    if (!running) {
        row->clear("lease");
        row->clear("must_end_at");
        return;
    }
    row->default_to("last_heartbeat", now);
    if (!row->has("lease_timeout"))
        row->set("lease_timeout",
                 row->has("heartbeat_timeout")
                     ? row->get("heartbeat_timeout")
                     : IntervalPGetDatum(make_interval(find_queue(text_of(*row, "queue"))->heartbeat_timeout)));
}

// Its turn among the keys of a queue with round_robin. A dump brings its own: the queue's settings may come later.
void derive_turn(JobRow *row) {
    if (row->has("turn") || !find_queue(text_of(*row, "queue"))->round_robin) return;
    const std::string_view key = row->has("concurrency_key") ? text_of(*row, "concurrency_key") : std::string_view();
    row->set("turn", Int64GetDatum(core::turn_of(key)));
}

// Like settle_job(); a dump brings its own.
void derive_end(JobRow *row) {
    if (status_of(*row) != core::JobStatus::Processing || row->has("must_end_at")) return;
    core::Micros span = find_queue(text_of(*row, "queue"))->max_runtime;
    if (row->has("max_runtime")) span = span_of(DatumGetIntervalP(row->get("max_runtime")));
    if (span == 0) return;
    const Datum start = row->get(row->has("started_at") ? "started_at" : "last_heartbeat");
    row->set("must_end_at", TimestampTzGetDatum(core::saturating_add(DatumGetTimestampTz(start), span)));
}

// The transaction that has inserted rows from a dump, which bring their lane: whatever those held, a restore must not
// fail. AFTER triggers cannot tell these rows from others any more.
TransactionId restoring = InvalidTransactionId;

void complete_row(JobRow *row, TupleDesc desc, bool producer) {
    if (producer) check_producer(row, desc);
    // A row that brings its lane is from a dump: a restore must not fail for a limit, nor for one odd row.
    const bool is_new = !row->has("lane");
    if (!is_new) restoring = GetTopTransactionId();
    fill(row, desc);
    check_row(*row);
    if (is_new) check_history(*row);
    if (is_new) ask_for_room(*row);
    derive(row, desc, !is_new);
    derive_end(row);
    derive_turn(row);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_fill_job);
PGDLLEXPORT Datum jobq_fill_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, true);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    JobRow row(trigger->tg_trigtuple, desc);
    // Before the lane is missed, which nobody who leaves the queue out has heard of.
    if (!row.has("queue"))
        ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                        errmsg("null value in column \"queue\" of relation \"jobs\" violates not-null constraint"),
                        errtablecol(trigger->tg_relation, SPI_fnumber(desc, "queue"))));
    check_queue_name(text_of(row, "queue"), "queue");
    const Oid owner = owner_of(trigger);
    const bool producer = !has_rights_of(owner);
    as_role(owner, [&] { with_spi([&] { complete_row(&row, desc, producer); }); });
    return PointerGetDatum(row.tuple());
}

// After the insert, not before it like fill_job: ON CONFLICT or another trigger may leave the row out.
PG_FUNCTION_INFO_V1(jobq_count_job);
PGDLLEXPORT Datum jobq_count_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_INSERT, false);
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    const JobRow row(trigger->tg_trigtuple, desc);
    count_inserts_at_commit(text_of(row, "queue"), status_of(row), 1);
    if (row.has("watched")) publish_lease_deadline_at_commit(DT_NOBEGIN);
    const bool restored = TransactionIdIsValid(restoring) && restoring == GetTopTransactionIdIfAny();
    if (status_of(row) == core::JobStatus::Processing) with_spi([&] { expect_slots(slots_of(row)); });
    if (row.has("unique_held") && !restored) with_spi([&] { check_kept_key(row, "queue"); });
    publish_row(row);
    publish_place(row);
    if (status_of(row) == core::JobStatus::Blocked)
        publish_unblocked_at_commit(Blocker::Dependency, -DatumGetInt64(row.get("id")));
    return PointerGetDatum(nullptr);
}

}  // extern "C"

}  // namespace jobq
