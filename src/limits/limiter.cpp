// See limiter.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "limits/throttled_ranges.h"
#include "log/transaction_log.h"
#include "row/limit_names.h"
#include "row/numbers.h"
#include "shmem/memory.h"
#include "table/table_sql.h"

#include <algorithm>

namespace jobq {

namespace {

[[noreturn]] void rate_needs_memory(std::string_view name) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("the rate limit of queue \"%.*s\" requires the jobq library to be preloaded",
                           static_cast<int>(name.size()), name.data()),
                    errhint("Add jobq to \"shared_preload_libraries\" and restart the server, or remove the rate with "
                            "jobq_set_limit().")));
    pg_unreachable();
}

constexpr core::OptInt64 core::Event::*kSlotMembers[kSlotsOf] = {&core::Event::queue_slot, &core::Event::key_slot,
                                                                 &core::Event::kind_slot, &core::Event::limit_slot1,
                                                                 &core::Event::limit_slot2};

bool may_run(const QueueLimit &limit, int64 id, std::string_view queue, TimestampTz now, TimestampTz *due) {
    if (limit.max_running == 0) return false;
    if (limit.rate.interval > 0) {
        TimestampTz next;
        if (tokens_of(id, bucket_owner(limit, id, queue), limit.rate, now, &next) <= 0) {
            *due = Min(*due, next);
            return false;
        }
    }
    return limit.max_running < 0 || !limit_is_full(id);
}

int64 take_number(Limiter *limiter, SlotOf of, int64 limit, int32 number) {
    const int64 slot = core::slot_of(limit, number);
    const std::string_view key = of == SlotOf::Key ? limiter->names[static_cast<int>(of)] : std::string_view();
    return lock_free_slot(&limiter->slots, of, limiter->name, key, slot, limiter->now) ? slot : 0;
}

// Returns an upper bound for the number of jobs that run under the limit without a slot. The cached number remains an
// upper bound: these jobs can get slots in the meantime, but no other job starts without a slot.
int32 missing_slots(Limiter *limiter, SlotOf of, const QueueLimit &limit, int64 id) {
    if (limit.highest_slot < core::kSlotsMissing) return 0;
    auto *missing = &limiter->missing[static_cast<int>(of)];
    if (missing->limit == id) return missing->count;
    const std::string_view name = limiter->names[static_cast<int>(of)];
    with_sql_of(limiter->slots.jobs->table.relation, [&] {
        *missing = {id, static_cast<int32>(Min(running_without_slot(of, limiter->name, name), core::kMaxRunning))};
    });
    return missing->count;
}

// Counts the jobs that run under the limit, and takes a slot if there are fewer than max_running. Called after the
// limit has been changed, because running jobs might then hold slots with numbers above max_running or have no slots
// yet.
int64 take_counted(Limiter *limiter, SlotOf of, const QueueLimit &limit, int64 id) {
    int32 first;
    const uint64 ticket = begin_slot_search(id, limit.max_running, &first);
    // Counts the jobs without slots before reading the held slots, so that a job that gets its slot in between is
    // counted twice rather than not at all.
    const int32 most = Max(limit.max_running - missing_slots(limiter, of, limit, id), 0);
    const Notes<int32> held = held_numbers(&limiter->slots, of, id);
    const int32 usable = core::usable_numbers(held.items, held.count, most);
    int64 taken = 0;
    int at = 0;
    for (int32 number = 1; number <= usable && taken == 0; number++) {
        while (at < held.count && held.items[at] < number) at++;
        if (at == held.count || held.items[at] != number) taken = take_number(limiter, of, id, number);
    }
    const bool full = taken == 0 || held.count + 1 >= most;
    if (full) end_slot_search(id, ticket, nullptr, 0, true, 1);
    if (held.items != nullptr) pfree(held.items);
    return taken;
}

// Searches for free slots. Takes one of them, unless the claim has already taken the slot `taken`. Stores the numbers
// of the other free slots that it finds, so that the next claims need not search.
int64 search_slot(Limiter *limiter, SlotOf of, const QueueLimit &limit, int64 id, int64 taken = 0) {
    int32 number;
    const uint64 ticket = begin_slot_search(id, limit.max_running, &number);
    const int wanted = ticket == 0 ? 1 : kFreeNumbers;
    int32 found[kFreeNumbers];
    int count = 0;
    int32 looked = 0;
    for (; looked < limit.max_running && (count < wanted || taken == 0); looked++) {
        CHECK_FOR_INTERRUPTS();
        const int64 slot = core::slot_of(id, number);
        if (slot != taken && !seems_held(&limiter->slots, of, slot)) {
            if (taken == 0)
                taken = take_number(limiter, of, id, number);
            else
                found[count++] = number;
        }
        number = number % limit.max_running + 1;
        if (taken != 0 && ticket == 0) break;
    }
    end_slot_search(id, ticket, found, count, looked == limit.max_running, number);
    return taken;
}

// Takes the slot with this number. After an error or a cancel request, puts the number back into the list of free
// numbers; otherwise, the number would be missing from the list until the next search.
int64 take_number_or_return_it(Limiter *limiter, SlotOf of, int64 id, int32 number) {
    int64 slot = 0;
    PG_TRY();
    { slot = take_number(limiter, of, id, number); }
    PG_CATCH();
    {
        return_free_number(id, number);
        PG_RE_THROW();
    }
    PG_END_TRY();
    return slot;
}

int64 take_slot(Limiter *limiter, SlotOf of, const QueueLimit &limit, int64 id) {
    if (limit.max_running == 0) return 0;
    if (limit_is_full(id)) return 0;
    if (limit.highest_slot > limit.max_running) return take_counted(limiter, of, limit, id);
    while (const int32 number = take_free_number(id)) {
        if (number > limit.max_running) continue;
        if (const int64 slot = take_number_or_return_it(limiter, of, id, number))
            return free_numbers_unknown(id) ? search_slot(limiter, of, limit, id, slot) : slot;
    }
    return search_slot(limiter, of, limit, id);
}

bool take_permit(Limiter *limiter, SlotOf of, const QueueLimit &limit, int64 id) {
    Permit permit = {of, id, 0, {0, 0}};
    TimestampTz due;
    if (limit.rate.interval > 0) {
        if (!spend_token(id, bucket_owner(limit, id, limiter->name), limit.rate, limiter->now, &due)) return false;
        permit.rate = limit.rate;
    }
    if (limit.max_running >= 0) {
        log_members_of(limit, id);
        permit.slot = take_slot(limiter, of, limit, id);
        if (permit.slot == 0) {
            if (permit.rate.interval > 0) return_spent_token(id, permit.rate);
            return false;
        }
    }
    limiter->permits[limiter->permit_count++] = permit;
    return true;
}

bool is_used_up(const Limiter &limiter, int64 limit) {
    const int64 *end = limiter.used_up + limiter.used_up_count;
    return std::find(limiter.used_up, end, limit) != end;
}

// Takes what the job needs under its limit of the given type. Returns false if the limit has no room.
bool take_under(Limiter *limiter, SlotOf of) {
    const AppliedLimit applied = limit_of_job(*limiter->slots.jobs, *limiter->queue, limiter->name, of);
    limiter->names[static_cast<int>(of)] = applied.name;
    if (applied.limit == nullptr) return true;
    if (is_used_up(*limiter, applied.id)) return false;
    if (take_permit(limiter, of, *applied.limit, applied.id)) return true;
    if (limiter->used_up_count < static_cast<int>(lengthof(limiter->used_up)))
        limiter->used_up[limiter->used_up_count++] = applied.id;
    return false;
}

bool waits_under(const JobsTable &jobs, std::string_view name, const Queue &queue, SlotOf of, TimestampTz now,
                 TimestampTz *due) {
    const AppliedLimit applied = limit_of_job(jobs, queue, name, of);
    return applied.limit != nullptr && !may_run(*applied.limit, applied.id, name, now, due);
}

// Returns the limit with this key or kind among the limits from `begin` to `end`, which are ordered by name. If there
// is none, returns the limit of core::kEachKey, or nullptr if there is none either.
const QueueLimit *limit_among(const QueueLimit *begin, const QueueLimit *end, std::string_view name) {
    const auto find = [&](std::string_view wanted) -> const QueueLimit * {
        const QueueLimit *found = std::lower_bound(
            begin, end, wanted, [](const QueueLimit &limit, std::string_view other) { return limit.key < other; });
        return found != end && found->key == wanted ? found : nullptr;
    };
    const QueueLimit *own = find(name);
    return own != nullptr ? own : find(core::kEachKey);
}

const QueueLimit *first_kind_limit(const Queue &queue) { return queue.limits + key_limit_count(queue); }

const QueueLimit *first_named_limit(const Queue &queue) {
    return queue.limits + (queue.limit_count - queue.named_limit_count);
}

// Returns the number of limits of this type that the queue has.
int limits_of(const Queue &queue, SlotOf of) {
    if (is_named(of)) return queue.named_limit_count;
    return of == SlotOf::Kind ? queue.kind_limit_count : key_limit_count(queue);
}

// Returns the named limit of the job in table.row whose slot belongs into the column of the given type.
AppliedLimit named_limit_of_job(const JobsTable &jobs, const Queue &queue, SlotOf of) {
    bool none;
    const Datum value = job_value(jobs, kJobLimits, &none);
    const QueueLimit *limit = with_limit_names(value, none, [&](const LimitNames &names) -> const QueueLimit * {
        const int i = of == SlotOf::Named1 ? 0 : 1;
        return i < names.count ? named_limit(queue, names.items[i]) : nullptr;
    });
    if (limit == nullptr) return {nullptr, {}, 0};
    return {limit, limit->key, named_limit_id(limit->key)};
}

// Returns whether the job in table.row has a named limit and, according to the state in shared memory, a limit of any
// type prevents the job from running.
bool shares_full_limit(const Limiter &limiter) {
    const JobsTable &jobs = *limiter.slots.jobs;
    if (limiter.queue->named_limit_count == 0 || !job_has(jobs, kJobLimits)) return false;
    TimestampTz due = DT_NOEND;
    return waits_for_lane(jobs, limiter.name, *limiter.queue, limiter.now, &due);
}

}  // namespace

int64 bucket_owner(const QueueLimit &limit, int64 id, std::string_view queue) {
    return limit.member_count > 0 ? id : queue_limit_id(queue);
}

const QueueLimit *limit_of_key(const Queue &queue, std::string_view key) {
    return limit_among(queue.limits, first_kind_limit(queue), key);
}

const QueueLimit *limit_of_kind(const Queue &queue, std::string_view kind) {
    return limit_among(first_kind_limit(queue), first_named_limit(queue), kind);
}

const QueueLimit *named_limit(const Queue &queue, std::string_view name) {
    const QueueLimit *end = queue.limits + queue.limit_count;
    const QueueLimit *found =
        std::find_if(first_named_limit(queue), end, [name](const QueueLimit &limit) { return limit.key == name; });
    return found == end ? nullptr : found;
}

const QueueLimit *limit_of_queue(const Queue &queue) {
    return key_limit_count(queue) > 0 && queue.limits[0].key.empty() ? &queue.limits[0] : nullptr;
}

const QueueLimit *find_limit(const Queue &queue, SlotOf of, std::string_view name) {
    switch (of) {
        case SlotOf::Queue:
            return limit_of_queue(queue);
        case SlotOf::Key:
            return limit_of_key(queue, name);
        case SlotOf::Kind:
            return limit_of_kind(queue, name);
        default:
            return named_limit(queue, name);
    }
}

int64 limit_id(SlotOf of, std::string_view queue, std::string_view name) {
    switch (of) {
        case SlotOf::Queue:
            return queue_limit_id(queue);
        case SlotOf::Key:
            return key_limit_id(queue, name);
        case SlotOf::Kind:
            return kind_limit_id(queue, name);
        default:
            return named_limit_id(name);
    }
}

AppliedLimit limit_of_job(const JobsTable &jobs, const Queue &queue, std::string_view name, SlotOf of) {
    AppliedLimit applied = {nullptr, {}, 0};
    // Avoids reading the column of the name if the queue has no limit of this type.
    if (limits_of(queue, of) == 0) return applied;
    if (is_named(of)) return named_limit_of_job(jobs, queue, of);
    if (of != SlotOf::Queue) {
        bool none;
        const Datum value = job_value(jobs, of == SlotOf::Key ? kJobConcurrencyKey : kJobKind, &none);
        if (none) return applied;
        applied.name = view(DatumGetTextPP(value));
    }
    applied.limit = find_limit(queue, of, applied.name);
    if (applied.limit != nullptr) applied.id = limit_id(of, name, applied.name);
    return applied;
}

bool queue_may_run(const Queue &queue, std::string_view name, TimestampTz now, TimestampTz *due) {
    if (!shared_memory_ready())
        for (int i = 0; i < queue.limit_count; i++)
            if (queue.limits[i].rate.interval > 0) rate_needs_memory(name);
    const QueueLimit *limit = limit_of_queue(queue);
    return limit == nullptr || may_run(*limit, queue_limit_id(name), name, now, due);
}

bool waits_for_key(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now,
                   TimestampTz *due) {
    return waits_under(jobs, name, queue, SlotOf::Key, now, due);
}

bool waits_for_lane(const JobsTable &jobs, std::string_view name, const Queue &queue, TimestampTz now,
                    TimestampTz *due) {
    return waits_under(jobs, name, queue, SlotOf::Kind, now, due) ||
           waits_under(jobs, name, queue, SlotOf::Named1, now, due) ||
           waits_under(jobs, name, queue, SlotOf::Named2, now, due);
}

void open_limiter(Limiter *limiter, JobsTable *jobs, std::string_view name, const Queue &queue, TimestampTz now) {
    *limiter = {};
    limiter->slots.jobs = jobs;
    limiter->name = name;
    limiter->queue = &queue;
    limiter->now = now;
}

void close_limiter(Limiter *limiter) { close_slots(&limiter->slots); }

// Checks the limit of the key first and that of the queue last, because a full limit of a key rejects one job, a full
// limit of a kind or a full named limit ends the lane, and a full limit of the queue ends the claim. First checks
// without taking anything whether a named limit is full, so that a job that cannot run rarely takes, even for a moment,
// a token or a slot for which other queues wait.
Room take_permits(Limiter *limiter) {
    constexpr struct {
        SlotOf of;
        Room without;
    } kOrder[] = {{SlotOf::Key, Room::NotForKey},
                  {SlotOf::Kind, Room::NotForLane},
                  {SlotOf::Named1, Room::NotForLane},
                  {SlotOf::Named2, Room::NotForLane},
                  {SlotOf::Queue, Room::NotForQueue}};
    limiter->permit_count = 0;
    if (shares_full_limit(*limiter)) return Room::NotForLane;
    for (const auto &each : kOrder) {
        if (take_under(limiter, each.of)) continue;
        return_permits(limiter);
        return each.without;
    }
    return Room::Yes;
}

void return_permits(Limiter *limiter) {
    for (int i = 0; i < limiter->permit_count; i++) {
        const Permit &permit = limiter->permits[i];
        if (permit.rate.interval > 0) return_spent_token(permit.limit, permit.rate);
        if (permit.slot == 0) continue;
        unlock_slot(permit.slot);
        // Wakes up a worker that has found the limit full while this claim held the slot.
        if (return_free_number(permit.limit, core::number_of_slot(permit.slot))) {
            const bool is_of_key = permit.of == SlotOf::Key;
            slot_freed_at_commit(limiter->name, is_of_key ? limiter->names[static_cast<int>(SlotOf::Key)] : "",
                                 permit.slot);
        }
    }
    limiter->permit_count = 0;
}

void enter_slots(const Permit *permits, int count, TimestampTz now, core::Event *event) {
    for (const Permit *permit = permits; permit < permits + count; permit++) {
        if (permit->slot == 0) continue;
        event->*kSlotMembers[static_cast<int>(permit->of)] = permit->slot;
        const int64 seq = next_slot_seq(permit->slot, now);
        event->slot_seq = Max(event->slot_seq.value_or(seq), seq);
    }
}

void enter_permits(const Limiter &limiter, core::Event *event) {
    enter_slots(limiter.permits, limiter.permit_count, limiter.now, event);
}

void keep_permits(Limiter *limiter) {
    for (int i = 0; i < limiter->permit_count; i++) {
        const Permit &permit = limiter->permits[i];
        if (permit.slot != 0) unlock_slot(permit.slot);
        if (permit.of != SlotOf::Key || permit.rate.interval == 0 || !anything_throttled()) continue;
        // Records when the next job of the key can run, because that job might be in a throttled range.
        TimestampTz due;
        tokens_of(permit.limit, queue_limit_id(limiter->name), permit.rate, limiter->now, &due);
        unthrottle_key(limiter->name, limiter->names[static_cast<int>(SlotOf::Key)], due, kByRate);
    }
    limiter->permit_count = 0;
}

void log_members_of(const QueueLimit &limit, int64 id) {
    if (limit.member_count > 0) log_members(id, limit.members, limit.member_count);
}

void named_slot_freed(std::string_view queue, int64 slot) {
    const int64 id = core::limit_of_slot(slot);
    const Queue &settings = *find_queue(queue);
    const QueueLimit *end = settings.limits + settings.limit_count;
    const QueueLimit *limit = std::find_if(first_named_limit(settings), end,
                                           [id](const QueueLimit &each) { return named_limit_id(each.key) == id; });
    if (limit != end) {
        log_members_of(*limit, id);
        slot_freed_at_commit(queue, {}, slot);
    } else {
        // The limit no longer includes the queue, or was dropped, so the queues that share the limit are not known.
        slots_freed_at_commit();
    }
}

int64 take_any_slot(Slots *slots, SlotOf of, std::string_view name, std::string_view key, int64 limit, TimestampTz now,
                    Given *given) {
    if (given->limit != limit) *given = {limit, 1};
    for (int32 number = given->next; number <= core::kHighestNumber; number++) {
        CHECK_FOR_INTERRUPTS();
        const int64 slot = core::slot_of(limit, number);
        if (!lock_free_slot(slots, of, name, key, slot, now)) continue;
        given->next = number + 1;
        return slot;
    }
    return 0;
}

}  // namespace jobq
