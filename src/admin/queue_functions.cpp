// SQL functions with which administrators create, change, pause, purge, and delete queues.
#include "compat/pg.h"

#include "admin/operate.h"
#include "admin/queues.h"
#include "admin/statuses_argument.h"
#include "compat/args.h"
#include "compat/own_locks.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "core/stable_hash.h"
#include "handlers/handler.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "queues/queue_settings.h"
#include "row/owner.h"
#include "row/status.h"
#include "schedules/schedule_settings.h"

#include <algorithm>

namespace jobq {

namespace {

using core::SettingNumber;

text *queue_argument(FunctionCallInfo fcinfo) { return granted_queue(fcinfo, 0, "queue"); }

// Checks the name of a dead letter queue. An empty name means that there is no dead letter queue.
void check_dead_letter_queue(FunctionCallInfo fcinfo, std::string_view queue, std::string_view dead_letter_queue) {
    if (dead_letter_queue.empty()) return;
    check_scope(scope_of(fcinfo), dead_letter_queue);
    if (dead_letter_queue == queue)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("argument \"dead_letter_queue\" must not be the queue itself"),
                 errhint("Specify another queue. Without a dead letter queue, failed jobs stay in their own queue.")));
    require_known_queue(dead_letter_queue);
}

bool concerns_dead_letters(const GivenSettings &settings) {
    return settings.has(SettingNumber::keep_failed) || settings.has(SettingNumber::dead_letter_queue);
}

// Locks the queue and its dead letter queue until the transaction ends. Must be called before the settings are written.
// Without the locks, one session could make a queue a dead letter queue while another session sets keep_failed of that
// queue to 0, and neither would see the other's change. The caller has privileges on both queues, so it cannot block
// operators of other queues.
void lock_dead_letters(std::string_view queue, const GivenSettings &settings) {
    int64 numbers[2] = {};
    int count = 0;
    if (settings.has(SettingNumber::keep_failed)) numbers[count++] = core::stable_hash(queue);
    const std::string_view letters = settings.has(SettingNumber::dead_letter_queue)
                                         ? view(DatumGetTextPP(settings.get(SettingNumber::dead_letter_queue)))
                                         : std::string_view();
    if (!letters.empty()) numbers[count++] = core::stable_hash(letters);
    std::sort(numbers, numbers + count);
    for (int i = 0; i < count; i++) {
        const LOCKTAG tag = own_lock(OwnLock::DeadLetters, numbers[i]);
        LockAcquire(&tag, ExclusiveLock, false, false);
    }
}

// Raises an error if a dead letter queue would keep no failed jobs. Call this function inside with_spi(), after the
// settings have been written.
void refuse_unkept_dead_letters(text *queue, const GivenSettings &written) {
    if (!concerns_dead_letters(written)) return;
    const Rows unkept = unkept_dead_letters(queue);
    if (unkept.size() == 0) return;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("queue \"%s\" must keep failed jobs because it is a dead letter queue",
                    TextDatumGetCString(unkept[0].get(1))),
             errhint("Set \"keep_failed\" of the queue to more than 0, or specify another \"dead_letter_queue\".")));
}

// Raises an error if a role that was granted only some queues enables round_robin. Enabling this setting locks
// jobq.jobs, and therefore the jobs of all queues, until the transaction ends (claim/round_robin_setting.cpp).
void check_round_robin(FunctionCallInfo fcinfo, bool round_robin) {
    if (!round_robin || scope_of(fcinfo) == nullptr) return;
    ereport(
        ERROR,
        (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to enable \"round_robin\""),
         errdetail("Enabling \"round_robin\" locks the jobs of all queues, but the role was granted only some queues."),
         errhint("Ask an operator with privileges on all queues to enable \"round_robin\".")));
}

// Reads the arguments after the argument `queue`: the settings, in the order of core::SettingNumber.
GivenSettings settings_arguments(FunctionCallInfo fcinfo) {
    GivenSettings found = {};
    for (int i = 0; i < core::kQueueSettings; i++) {
        found.given[i] = given(fcinfo, i + 1);
        if (!found.given[i]) continue;
        found.values[i] = PG_GETARG_DATUM(i + 1);
        check_setting(core::kQueueSettingTable[i], found.values[i]);
    }
    if (found.has(SettingNumber::dead_letter_queue))
        check_dead_letter_queue(fcinfo, view(PG_GETARG_TEXT_PP(0)),
                                view(DatumGetTextPP(found.get(SettingNumber::dead_letter_queue))));
    if (found.has(SettingNumber::round_robin))
        check_round_robin(fcinfo, DatumGetBool(found.get(SettingNumber::round_robin)));
    return found;
}

Datum set_paused_argument(FunctionCallInfo fcinfo, bool paused) {
    text *queue = queue_argument(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_unknown_queue(view(queue), scope);
        return set_paused(queue, paused);
    }));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_create_queue);
PGDLLEXPORT Datum jobq_create_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    const GivenSettings found = settings_arguments(fcinfo);
    if (!with_owner_spi([&] {
            lock_dead_letters(view(queue), found);
            const bool created = create_queue(queue, found);
            if (created) refuse_unkept_dead_letters(queue, found);
            return created;
        }))
        ereport(ERROR,
                (errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("queue \"%s\" already has settings", text_to_cstring(queue)),
                 errhint("Change them with jobq_alter_queue().")));
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_alter_queue);
PGDLLEXPORT Datum jobq_alter_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    const GivenSettings found = settings_arguments(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_mistyped_queue(view(queue), scope);
        lock_dead_letters(view(queue), found);
        alter_queue(queue, found);
        refuse_unkept_dead_letters(queue, found);
    });
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_drop_queue);
PGDLLEXPORT Datum jobq_drop_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    require(fcinfo, 1, "force");
    const bool force = PG_GETARG_BOOL(1);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        // Locks the jobs first, so that exactly the jobs that were checked are deleted.
        const Rows jobs = lock_queue(queue);
        auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (jobs.size() + 1), MCXT_ALLOC_HUGE));
        for (uint64 i = 0; i < jobs.size(); i++) {
            ids[i] = jobs[i].get(1);
            if (!force && !jobs[i].bool_at(2))
                ereport(ERROR,
                        (errcode(ERRCODE_OBJECT_IN_USE),
                         errmsg("cannot drop queue \"%s\" because it has unfinished jobs", text_to_cstring(queue)),
                         errhint("Cancel them with jobq_cancel_jobs(), or drop the queue with force => true.")));
            if (!force && jobs[i].bool_at(3))
                ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                                errmsg("cannot drop queue \"%s\" because it has dead letters", text_to_cstring(queue)),
                                errhint("Move them back with jobq_redrive(), delete them with jobq_delete_jobs(), or "
                                        "drop the queue with force => true.")));
        }
        if (!force && lock_schedules_of(queue))
            ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                            errmsg("cannot drop queue \"%s\" because it has schedules", text_to_cstring(queue)),
                            errhint("Remove them with jobq_unschedule(), or drop the queue with force => true.")));
        if (!force && lock_handlers_of(queue))
            ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                            errmsg("cannot drop queue \"%s\" because it has handlers", text_to_cstring(queue)),
                            errhint("Remove them with jobq_drop_handler(), or drop the queue with force => true.")));
        const bool any_schedule = remove_schedules_of(queue) > 0, any_handler = remove_handlers_of(queue) > 0;
        const bool forgotten =
            any_schedule | any_handler | forget_queue(queue, array_of(ids, static_cast<int>(jobs.size()), INT8OID));
        if (!forgotten) warn_of_unknown_queue(view(queue), scope);
        return forgotten;
    }));
}

PG_FUNCTION_INFO_V1(jobq_pause_queue);
PGDLLEXPORT Datum jobq_pause_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return set_paused_argument(fcinfo, true);
}

PG_FUNCTION_INFO_V1(jobq_resume_queue);
PGDLLEXPORT Datum jobq_resume_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return set_paused_argument(fcinfo, false);
}

PG_FUNCTION_INFO_V1(jobq_purge_queue);
PGDLLEXPORT Datum jobq_purge_queue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = queue_argument(fcinfo);
    const Datum statuses = read_statuses(fcinfo, 1, Operation::Delete, operation_applies);
    const int64 max_jobs = given(fcinfo, 2) ? int64{check_max_jobs(PG_GETARG_INT32(2))} : PG_INT64_MAX;
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_INT64(with_owner_spi([&] {
        require_known_queue(view(queue));
        const int64 purged = purge_queue(queue, statuses, max_jobs);
        if (purged == 0) warn_of_unknown_queue(view(queue), scope);
        return purged;
    }));
}

}  // extern "C"

}  // namespace jobq
