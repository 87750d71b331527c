// See counters.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "compat/transaction.h"
#include "core/ablation.h"
#include "core/wide_xid.h"
#include "log/logged.h"
#include "metrics/counters.h"
#include "shmem/database_state.h"
#include "shmem/hash_table.h"
#include "shmem/memory.h"

extern "C" {
#include "access/twophase.h"
#include "port/atomics.h"
}

#include <algorithm>

namespace jobq {

namespace {

struct SharedSample {
    pg_atomic_uint64 at;  // 0 while the sample is being written
    pg_atomic_uint64 events[core::kEventCount];
};

// The counters of one queue. An entry is added to a list or removed from it only under the exclusive lock; its numbers
// can also change under the shared lock.
struct Entry : ChainedEntry {
    QueueName queue;
    TimestampTz since;
    bool entered;  // set by end_recount() when it has stored the result for this queue
    pg_atomic_uint64 jobs[core::kJobStatusCount];
    pg_atomic_uint64 noted[core::kJobStatusCount];  // changes that the snapshot of the current recount does not see
    pg_atomic_uint64 events[core::kEventCount];
    pg_atomic_uint64 sampled_at;
    pg_atomic_uint32 samples_taken;
    SharedSample samples[core::kSampleCount];
};

struct DatabaseCounters {
    Oid database;  // InvalidOid if unused
    int entries;   // list of the entries of this database
    bool known;
    bool incomplete;  // there was no room for a queue, so a queue without an entry may have jobs
    // State of the recounts of this database.
    int counting_pid;  // 0 if no recount is running
    bool spoiled;      // the counters became unknown while they were being counted
    TimestampTz begun, ended;
    // The values of core::Seen::limit and core::Seen::running_count for the current recount, and for the last recount
    // whose result was stored. core::Seen describes which transactions a snapshot sees.
    uint64 seen_limit, entered_limit;
    int running_count, entered_count;
};

struct Counters {
    int running_room;  // maximum number of transaction IDs per list
    DatabaseCounters databases[kMaxDatabases];
};

Counters *shared = nullptr;
HashTable<Entry> entries;
// For each database, two lists of the transactions that were running when a recount took its snapshot: one list for the
// current recount, and one for the last recount whose result was stored.
uint32 *running = nullptr;

// Whether this session is counting the rows of its database.
bool counting = false;

int running_room() { return MaxBackends + max_prepared_xacts + 1; }

LWLock *lock() { return shared_lock(Part::Counters); }

uint32 *running_list(const DatabaseCounters *database, bool entered) {
    const auto index = static_cast<Size>(database - shared->databases);
    return running + (index * 2 + (entered ? 1 : 0)) * shared->running_room;
}

core::Seen seen_now(const DatabaseCounters *database) {
    return {database->seen_limit, running_list(database, false), database->running_count};
}

core::Seen entered(const DatabaseCounters *database) {
    return {database->entered_limit, running_list(database, true), database->entered_count};
}

DatabaseCounters *counters_of(Oid oid) { return part_of_database(shared->databases, oid); }

// Returns the counters of the database and creates them if necessary. Returns nullptr if there is no room. Needs the
// exclusive lock.
DatabaseCounters *obtain_database(Oid oid) {
    DatabaseCounters *database = counters_of(oid);
    if (database != nullptr) return database;
    database = counters_of(InvalidOid);
    if (database == nullptr) return nullptr;
    memset(static_cast<void *>(database), 0, sizeof(*database));
    database->entries = kNoEntry;
    database->database = oid;
    return database;
}

Entry *find_entry(Oid database, const char *queue, uint32 hash) {
    return entries.find(database, hash, [queue](const Entry &entry) { return same_queue(entry.queue, queue); });
}

bool is_empty(Entry *entry) {
    for (auto &number : entry->jobs)
        if (pg_atomic_read_u64(&number) != 0) return false;
    return true;
}

// To make room, frees the entries of queues without jobs. Needs the exclusive lock.
void free_empty_entries() {
    for (DatabaseCounters &database : shared->databases) {
        // Skips databases with a running recount, because the numbers in `noted` must not be lost.
        if (database.database == InvalidOid || database.counting_pid != 0) continue;
        entries.each(database.entries, [&](Entry *entry) {
            if (is_empty(entry)) entries.give_back(entry, &database.entries);
        });
    }
}

// Creates an entry. Returns nullptr if there is no room. Needs the exclusive lock.
Entry *make_entry(DatabaseCounters *database, const char *queue, uint32 hash) {
    Entry *entry = entries.take(database->database, hash, &database->entries);
    if (entry == nullptr) {
        note_evictions(Part::Counters);
        return nullptr;
    }
    memcpy(entry->queue, queue, sizeof(QueueName));
    entry->since = GetCurrentTimestamp();
    for (auto &number : entry->jobs) pg_atomic_init_u64(&number, 0);
    for (auto &number : entry->noted) pg_atomic_init_u64(&number, 0);
    for (auto &number : entry->events) pg_atomic_init_u64(&number, 0);
    pg_atomic_init_u64(&entry->sampled_at, 0);
    pg_atomic_init_u32(&entry->samples_taken, 0);
    for (auto &sample : entry->samples) {
        pg_atomic_init_u64(&sample.at, 0);
        for (auto &number : sample.events) pg_atomic_init_u64(&number, 0);
    }
    return entry;
}

void forget(DatabaseCounters *database) {
    database->known = false;
    database->spoiled = true;
}

void add(pg_atomic_uint64 *number, int64 change) {
    if (change != 0) pg_atomic_fetch_add_u64(number, change);
}

// Takes a sample of the totals if the last sample is old enough and no other session is taking a sample.
void take_sample(Entry *entry, TimestampTz now) {
    uint64 last = pg_atomic_read_u64(&entry->sampled_at);
    if (!core::sample_due(static_cast<TimestampTz>(last), now)) return;
    if (!pg_atomic_compare_exchange_u64(&entry->sampled_at, &last, static_cast<uint64>(now))) return;
    SharedSample *sample = &entry->samples[pg_atomic_fetch_add_u32(&entry->samples_taken, 1) % core::kSampleCount];
    pg_atomic_write_u64(&sample->at, 0);
    pg_write_barrier();
    for (int i = 0; i < core::kEventCount; i++)
        pg_atomic_write_u64(&sample->events[i], pg_atomic_read_u64(&entry->events[i]));
    pg_write_barrier();
    pg_atomic_write_u64(&sample->at, static_cast<uint64>(now));
}

void add_change(const DatabaseCounters *database, Entry *entry, const core::Counts &change, uint64 xid,
                TimestampTz now) {
    constexpr bool exact = core::built_with(core::Mechanism::ExactRecounts);
    const bool counted = exact && core::contains(entered(database), xid);
    const bool noted = exact && database->counting_pid != 0 && !core::contains(seen_now(database), xid);
    take_sample(entry, now);
    // Adds first and then subtracts, because read_depth() relies on this order.
    for (const bool rises : {true, false})
        for (int i = 0; i < core::kJobStatusCount; i++) {
            if ((change.jobs[i] > 0) != rises) continue;
            if (!counted) add(&entry->jobs[i], change.jobs[i]);
            if (noted) add(&entry->noted[i], change.jobs[i]);
        }
    for (int i = 0; i < core::kEventCount; i++) add(&entry->events[i], change.events[i]);
}

// Returns whether the changes can be added under the shared lock. Returns false if an entry must be created first,
// which needs the exclusive lock.
bool can_add(const DatabaseCounters *database, const QueueChange *changes, int count) {
    if (database == nullptr) return false;
    if (database->incomplete) return true;
    for (int i = 0; i < count; i++)
        if (find_entry(MyDatabaseId, changes[i].queue, changes[i].hash) == nullptr) return false;
    return true;
}

// Creates missing entries with zero jobs, because a queue without an entry has no jobs. Does nothing if the counters
// are incomplete, because in that case, a queue without an entry might have jobs, and only a recount can create its
// entry.
void make_missing(DatabaseCounters *database, const QueueChange *changes, int count) {
    if (database->incomplete) return;
    // Frees empty entries before it creates new ones. In the opposite order, it would free the new entries, which are
    // empty until their changes are added.
    if (!entries.has_room(count)) free_empty_entries();
    for (int i = 0; i < count && !database->incomplete; i++) {
        if (find_entry(MyDatabaseId, changes[i].queue, changes[i].hash) != nullptr) continue;
        if (make_entry(database, changes[i].queue, changes[i].hash) == nullptr) database->incomplete = true;
    }
}

int64 number_of(pg_atomic_uint64 *number) { return static_cast<int64>(pg_atomic_read_u64(number)); }

void read_entry(Entry *entry, TimestampTz now, CountedQueue *counted) {
    memcpy(counted->queue, entry->queue, sizeof(QueueName));
    for (int i = 0; i < core::kJobStatusCount; i++) counted->jobs[i] = number_of(&entry->jobs[i]);
    core::Sample samples[core::kSampleCount];
    for (int i = 0; i < core::kSampleCount; i++) {
        SharedSample *from = &entry->samples[i];
        samples[i].at = number_of(&from->at);
        pg_read_barrier();
        for (int e = 0; e < core::kEventCount; e++) samples[i].events[e] = number_of(&from->events[e]);
        pg_read_barrier();
        if (number_of(&from->at) != samples[i].at) samples[i].at = 0;
    }
    int64 totals[core::kEventCount];
    for (int e = 0; e < core::kEventCount; e++) totals[e] = number_of(&entry->events[e]);
    core::rates(samples, core::kSampleCount, totals, entry->since, now, counted->rates);
}

// Returns the counters of this session's database, which the session is recounting, or nullptr if they were dropped in
// the meantime. Needs the shared or exclusive lock.
DatabaseCounters *database_being_counted() {
    DatabaseCounters *database = counters_of(MyDatabaseId);
    return database != nullptr && database->counting_pid == MyProcPid ? database : nullptr;
}

// Stores which transactions the snapshot of the recount sees.
void remember_seen(DatabaseCounters *database, Snapshot snapshot) {
    const FullTransactionId next = ReadNextFullTransactionId();
    database->seen_limit = core::widen_xid(snapshot->xmax, U64FromFullTransactionId(next));
    uint32 *list = running_list(database, false);
    memcpy(list, snapshot->xip, sizeof(uint32) * snapshot->xcnt);
    database->running_count = static_cast<int>(snapshot->xcnt);
    // Adds this transaction to the list of running transactions, because the recount does not count the uncommitted
    // changes of this transaction, although the snapshot sees them.
    const TransactionId own = GetTopTransactionIdIfAny();
    if (TransactionIdIsValid(own) && TransactionIdPrecedes(own, snapshot->xmax)) list[database->running_count++] = own;
}

// Writes into the entry the sum of the counted numbers and the changes in `noted`, which the count does not include.
// Returns whether the entry was wrong.
bool enter(Entry *entry, const int64 *counted) {
    bool wrong = false;
    for (int i = 0; i < core::kJobStatusCount; i++) {
        const int64 right = counted[i] + number_of(&entry->noted[i]);
        wrong |= right != number_of(&entry->jobs[i]);
        pg_atomic_write_u64(&entry->jobs[i], static_cast<uint64>(right));
    }
    return wrong;
}

bool all_zero(const int64 *jobs) {
    return std::all_of(jobs, jobs + core::kJobStatusCount, [](int64 number) { return number == 0; });
}

// Writes all counted numbers into the entries. An entry whose queue was not counted gets zeros, because the table has
// no jobs of that queue. Returns the number of queues whose counters were wrong.
int64 enter_all(DatabaseCounters *database, QueueCount *queues, int count) {
    constexpr int64 none[core::kJobStatusCount] = {};
    int64 wrong = 0;
    int missing = 0;
    entries.each(database->entries, [](Entry *entry) { entry->entered = false; });
    for (int i = 0; i < count; i++) {
        QueueCount *queue = &queues[i];
        for (int s = 0; s < core::kJobStatusCount; s++) queue->jobs[s] -= queue->own[s];
        Entry *entry = find_entry(database->database, queue->queue, hash_of_queue(queue->queue));
        queue->entered = entry != nullptr || all_zero(queue->jobs);
        if (!queue->entered) missing++;
        if (entry == nullptr) continue;
        entry->entered = true;
        if (enter(entry, queue->jobs)) wrong++;
    }
    entries.each(database->entries, [&](Entry *entry) {
        if (!entry->entered && enter(entry, none)) wrong++;
    });
    // The numbers now include the changes in `noted`, so empty entries can be freed without losing changes.
    database->counting_pid = 0;
    if (!entries.has_room(missing)) free_empty_entries();
    // If there was no room for the entry of a queue during the recount, changes of this queue were not added to
    // `noted`, so the counted numbers of queues without an entry might be out of date.
    const bool noted_all = !database->incomplete;
    for (int i = 0; i < count; i++) {
        if (queues[i].entered) continue;
        Entry *entry = noted_all ? make_entry(database, queues[i].queue, hash_of_queue(queues[i].queue)) : nullptr;
        database->incomplete |= entry == nullptr;
        if (entry != nullptr) enter(entry, queues[i].jobs);
        wrong++;
    }
    return wrong;
}

}  // namespace

SharedUsage counters_usage() {
    if (shared == nullptr) return {};
    LWLockAcquire(lock(), LW_SHARED);
    const SharedUsage usage = {entries.taken(), entries.capacity(), evictions(Part::Counters)};
    LWLockRelease(lock());
    return usage;
}

Size counters_size() {
    Size size = MAXALIGN(sizeof(Counters));
    size = add_size(size, MAXALIGN(HashTable<Entry>::size(settings.max_counted_queues)));
    return add_size(size, mul_size(sizeof(uint32) * 2 * kMaxDatabases, running_room()));
}

void make_counters(void *memory, bool fresh) {
    if (settings.max_counted_queues == 0) return;
    const int capacity = settings.max_counted_queues;
    auto *at = static_cast<char *>(memory);
    shared = reinterpret_cast<Counters *>(at);
    at += MAXALIGN(sizeof(Counters));
    entries.attach(at, capacity, fresh);
    at += MAXALIGN(HashTable<Entry>::size(capacity));
    running = reinterpret_cast<uint32 *>(at);
    if (fresh) shared->running_room = running_room();
}

void add_changes(const QueueChange *changes, int count, FullTransactionId xid, bool forget_all) {
    if (shared == nullptr) return;
    const TimestampTz now = end_of_transaction();
    LWLockAcquire(lock(), LW_SHARED);
    DatabaseCounters *database = counters_of(MyDatabaseId);
    if (forget_all || !can_add(database, changes, count)) {
        LWLockRelease(lock());
        LWLockAcquire(lock(), LW_EXCLUSIVE);
        database = obtain_database(MyDatabaseId);
        if (database != nullptr) {
            if (forget_all) forget(database);
            make_missing(database, changes, count);
        }
    }
    for (int i = 0; database != nullptr && i < count; i++) {
        Entry *entry = find_entry(MyDatabaseId, changes[i].queue, changes[i].hash);
        if (entry != nullptr) add_change(database, entry, changes[i].counts, U64FromFullTransactionId(xid), now);
    }
    LWLockRelease(lock());
}

void publish_counts() {
    const TransactionLog &log = transaction_log();
    if (log.changes.count > 0 || log.counts_unknown)
        add_changes(log.changes.items, log.changes.count, GetTopFullTransactionIdIfAny(), log.counts_unknown);
}

void forget_counters(Oid database_oid) {
    if (shared == nullptr) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseCounters *database = counters_of(database_oid);
    if (database != nullptr) forget(database);
    LWLockRelease(lock());
}

void drop_counters(Oid database_oid) {
    if (shared == nullptr) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseCounters *database = counters_of(database_oid);
    if (database != nullptr) {
        entries.give_back_all(&database->entries);
        database->database = InvalidOid;
    }
    LWLockRelease(lock());
}

CountedQueues read_counters() {
    CountedQueues result = {false, false, nullptr, 0};
    if (shared == nullptr) return result;
    const TimestampTz now = GetCurrentTimestamp();
    for (int room = 64;; room *= 2) {
        result.queues = static_cast<CountedQueue *>(palloc_extended(sizeof(CountedQueue) * room, MCXT_ALLOC_HUGE));
        LWLockAcquire(lock(), LW_SHARED);
        const DatabaseCounters *database = counters_of(MyDatabaseId);
        result.known = database != nullptr && database->known;
        const bool fits = !result.known || entries.count(database->entries) <= room;
        if (result.known && fits) {
            result.complete = !database->incomplete;
            entries.each(database->entries,
                         [&](Entry *entry) { read_entry(entry, now, &result.queues[result.count++]); });
        }
        LWLockRelease(lock());
        if (fits) return result;
        pfree(result.queues);
    }
}

// Reads the numbers in the order in which jobs pass through the statuses, beginning with blocked. So a job whose status
// changes during the read can be counted twice, but is never missed.
bool read_depth(std::string_view queue, int64 *depth) {
    QueueName name;
    if (shared == nullptr || !copy_queue(name, queue)) return false;
    *depth = 0;
    LWLockAcquire(lock(), LW_SHARED);
    const DatabaseCounters *database = counters_of(MyDatabaseId);
    bool known = database != nullptr && database->known;
    Entry *entry = known ? find_entry(MyDatabaseId, name, hash_of_queue(name)) : nullptr;
    if (entry == nullptr && known) known = !database->incomplete;
    for (const bool blocked : {true, false}) {
        if (entry == nullptr) break;
        for (const core::StatusRow &row : core::kJobStatuses) {
            if (!core::is_waiting(row.status) || (row.status == core::JobStatus::Blocked) != blocked) continue;
            *depth += number_of(&entry->jobs[static_cast<int>(row.status)]);
            pg_read_barrier();
        }
    }
    LWLockRelease(lock());
    return known;
}

bool any_counted(bool (*is_wanted)(core::JobStatus), bool *any) {
    if (shared == nullptr) return false;
    *any = false;
    LWLockAcquire(lock(), LW_SHARED);
    const DatabaseCounters *database = counters_of(MyDatabaseId);
    const bool known = database != nullptr && database->known;
    if (known)
        entries.each(database->entries, [&](Entry *entry) {
            for (const core::StatusRow &row : core::kJobStatuses)
                *any |= is_wanted(row.status) && number_of(&entry->jobs[static_cast<int>(row.status)]) > 0;
        });
    const bool complete = known && !database->incomplete;
    LWLockRelease(lock());
    return complete || (known && *any);
}

TimestampTz recount_due(bool unknown_only) {
    if (shared == nullptr) return DT_NOEND;
    LWLockAcquire(lock(), LW_SHARED);
    const DatabaseCounters *database = counters_of(MyDatabaseId);
    TimestampTz due = 0;
    if (database != nullptr)
        due = database->counting_pid != 0 || (database->known && unknown_only)
                  ? DT_NOEND
                  : core::next_recount(database->known, database->begun, database->ended,
                                       static_cast<core::Micros>(settings.reconcile_interval_s) * core::kSecond);
    else if (counters_of(InvalidOid) == nullptr)
        due = DT_NOEND;
    LWLockRelease(lock());
    return due;
}

bool recount_due_by_hand(TimestampTz now) {
    if (shared == nullptr) return false;
    LWLockAcquire(lock(), LW_SHARED);
    const DatabaseCounters *database = counters_of(MyDatabaseId);
    const bool due = database == nullptr || core::next_recount_by_hand(database->begun, database->ended) <= now;
    LWLockRelease(lock());
    return due;
}

Snapshot begin_recount() {
    if (shared == nullptr || counting) return nullptr;
    // The snapshot must be taken under the lock (see counters.h). The next two calls make the server allocate the
    // memory for snapshots, so that the call under the lock neither allocates memory nor raises an error.
    GetTransactionSnapshot();
    GetLatestSnapshot();
    Snapshot snapshot = nullptr;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseCounters *database = obtain_database(MyDatabaseId);
    if (database != nullptr && database->counting_pid == 0) {
        snapshot = GetLatestSnapshot();
        remember_seen(database, snapshot);
        entries.each(database->entries, [](Entry *entry) {
            for (auto &number : entry->noted) pg_atomic_write_u64(&number, 0);
        });
        database->begun = GetCurrentTimestamp();
        database->spoiled = false;
        // From now on, an entry is again created for each queue that has changes, so that changes that the snapshot
        // does not see are added to `noted`. The numbers in a new entry are not complete until the result of the
        // recount is stored, so the counters are unknown until then.
        if (database->incomplete) database->known = false;
        database->incomplete = false;
        database->counting_pid = MyProcPid;
        counting = true;
    }
    LWLockRelease(lock());
    return snapshot != nullptr ? RegisterSnapshot(snapshot) : nullptr;
}

int64 end_recount(QueueCount *queues, int count, bool complete) {
    if (!counting) return 0;
    counting = false;
    int64 wrong = 0;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseCounters *database = database_being_counted();
    if (database != nullptr) {
        if (!database->spoiled) {
            const bool compare = database->known;
            wrong = enter_all(database, queues, count);
            if (!compare) wrong = 0;
            database->known = true;
            database->incomplete |= !complete;
            database->entered_limit = database->seen_limit;
            database->entered_count = database->running_count;
            memcpy(running_list(database, true), running_list(database, false),
                   sizeof(uint32) * database->running_count);
        }
        database->ended = GetCurrentTimestamp();
        database->counting_pid = 0;
    }
    LWLockRelease(lock());
    return wrong;
}

void abandon_recount() {
    if (!counting) return;
    counting = false;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    DatabaseCounters *database = database_being_counted();
    if (database != nullptr) {
        database->ended = GetCurrentTimestamp();
        database->counting_pid = 0;
    }
    LWLockRelease(lock());
}

}  // namespace jobq
