// SQL functions with which administrators create, change, pause, purge, and delete queues.
#include "compat/pg.h"

#include "admin/given_settings.h"
#include "admin/operate.h"
#include "admin/queues.h"
#include "admin/statuses_argument.h"
#include "batches/callbacks.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "handlers/handler.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "row/owner.h"
#include "row/status.h"
#include "schedules/schedule_settings.h"

namespace jobq {

namespace {

text *queue_argument(FunctionCallInfo fcinfo) { return granted_queue(fcinfo, 0, "queue"); }

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
    const GivenSettings found = settings_arguments(fcinfo, 1, core::SettingLevel::Queue, queue);
    if (!with_owner_spi([&] {
            lock_dead_letters(queue, found);
            const bool created = create_queue(queue, found);
            if (created) refuse_unkept_dead_letters(queue, found);
            if (created) warn_of_unknown_limits(queue, found);
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
    const GivenSettings found = settings_arguments(fcinfo, 1, core::SettingLevel::Queue, queue);
    const QueueScope *scope = scope_of(fcinfo);
    with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_mistyped_queue(view(queue), scope);
        lock_dead_letters(queue, found);
        alter_queue(queue, found);
        refuse_unkept_dead_letters(queue, found);
        warn_of_unknown_limits(queue, found);
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
        if (!force && any_callback_in(queue))
            ereport(
                ERROR,
                (errcode(ERRCODE_OBJECT_IN_USE),
                 errmsg("cannot drop queue \"%s\" because batches have callbacks in it", text_to_cstring(queue)),
                 errhint("Wait until the batches have finished, or drop the queue with force => true. Their callbacks "
                         "then use the default settings.")));
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
