// See call_executors.h.
#include "compat/pg.h"

#include "handlers/call_executors.h"
#include "handlers/executor_slots.h"
#include "log/logged.h"

namespace jobq {

namespace {

// Wakes executors if any queue of the database has handlers and is_about(queues) returns true. `queues` is a bit set of
// the queues that have handlers (see handler_bit()).
template <typename IsAbout>
void call_if(IsAbout is_about) {
    DatabaseState *db = known_session_database();
    const uint64 wanted = db == nullptr ? 0 : pg_atomic_read_u64(&db->handler_queues);
    if (wanted != 0 && is_about(wanted)) call_executors(db);
}

}  // namespace

void call_executors_for_claimable() {
    const TransactionLog &log = transaction_log();
    const bool anything = log.ready_unknown || log.queues_unknown || log.slots_freed_unknown;
    if (log.queues.count == 0 && !anything) return;
    const auto shares_freed_slot = [&](const LoggedMember &member) {
        for (const LoggedSlot &slot : log.slots)
            if (slot.freed && core::limit_of_slot(slot.slot) == member.limit) return true;
        return false;
    };
    call_if([&](uint64 wanted) {
        bool any = anything;
        for (const LoggedQueue &queue : log.queues) any |= queue.changed && (wanted & handler_bit(queue.name)) != 0;
        for (const LoggedMember &member : log.members)
            any |= (wanted & handler_bit(log.queues.items[member.queue].name)) != 0 && shares_freed_slot(member);
        return any;
    });
}

void call_executors_for_slots_not_taken() {
    const TransactionLog &log = transaction_log();
    if (log.slots.count == 0 && !log.slots_taken_unknown) return;
    call_if([&](uint64 wanted) {
        bool any = log.slots_taken_unknown;
        for (const LoggedSlot &slot : log.slots)
            any |= slot.taken && (wanted & handler_bit(log.queues.items[slot.queue].name)) != 0;
        for (const LoggedMember &member : log.members)
            any |= (wanted & handler_bit(log.queues.items[member.queue].name)) != 0;
        return any;
    });
}

void call_executors_for_anything() {
    call_if([](uint64) { return true; });
}

}  // namespace jobq
