// See connected_workers.h. The times in shared memory are times of the monotonic clock, so that a step of the wall
// clock neither removes a worker nor keeps it.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "core/queue_pattern.h"
#include "leases/young_leases.h"
#include "metrics/connected_workers.h"
#include "shmem/hash_table.h"
#include "shmem/wall_clock.h"
#include "waiters/waiters.h"
#include "waiters/wake_notes_policy.h"

#include <algorithm>

extern "C" {
#include "access/xlog.h"
#include "common/hashfn.h"
}

namespace jobq {

namespace {

constexpr int kWorkers = 512;
constexpr int kInfoBytes = kMaxWorkerInfoKb * 1024;
// Minimum time between two recordings of the same worker by a session.
constexpr core::Micros kNoteEvery = core::kSecond;

// What is known about a worker, in the memo of a session and in shared memory.
struct Worker {
    int id_size, info_size;
    TimestampTz started_at;  // DT_NOBEGIN: the worker does not say
    core::Micros expires_in;
    core::Micros heard_at;
    core::Micros claimed_at;  // 0: it has not claimed any job
    char id[core::kMaxWorkerBytes];
    alignas(8) char info[kInfoBytes];

    std::string_view name() const { return {id, static_cast<size_t>(id_size)}; }
    bool is_live(core::Micros now) const { return now - heard_at < expires_in; }
};

struct Entry {
    Oid database;
    int next;
    int next_in_database;
    uint64 hash;
    core::Micros first_heard_at;
    Worker worker;
};

// A single list contains the entries of all databases, because the entries of a dropped database must expire, too.
struct Board {
    int all;
};

Board *board = nullptr;
HashTable<Entry> entries;

// The worker of the session's last call. `heard_at` and `claimed_at` are the times at which this session has recorded
// it.
Worker memo;

LWLock *workers_lock() { return shared_lock(Part::ConnectedWorkers); }

uint64 hash_of(std::string_view name) {
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(name.data()), static_cast<int>(name.size()), 0);
}

// Sets the memo to the worker that `info` describes.
void remember(const Jsonb *info) {
    const auto size = static_cast<int>(VARSIZE(info));
    if (memo.info_size == size && memcmp(memo.info, info, static_cast<size_t>(size)) == 0) return;
    const WorkerInfo checked = check_worker_info(info);
    memo.info_size = size;
    memcpy(memo.info, info, static_cast<size_t>(size));
    memo.id_size = static_cast<int>(checked.worker_id.size());
    memcpy(memo.id, checked.worker_id.data(), checked.worker_id.size());
    memo.started_at = checked.started_at;
    memo.expires_in = checked.expires_in;
    memo.heard_at = 0;
    memo.claimed_at = 0;
}

// ---- Until the next "----", the caller of each function must hold the lock.

template <typename Body>
void for_each_worker(Body body) {
    entries.each(board->all, body);
}

void drop_expired(core::Micros now) {
    for_each_worker([&](Entry *entry) {
        if (!entry->worker.is_live(now)) entries.give_back(entry, &board->all);
    });
}

// Returns the database with the most entries, counting the entry that is about to be added.
Oid largest_database() {
    Oid databases[kWorkers];
    int count = 0;
    for_each_worker([&](const Entry *entry) { databases[count++] = entry->database; });
    std::sort(databases, databases + count);
    Oid largest = MyDatabaseId;
    int most = 0;
    for (int i = 0; i < count;) {
        const int begin = i;
        while (i < count && databases[i] == databases[begin]) i++;
        const int size = i - begin + (databases[begin] == MyDatabaseId ? 1 : 0);
        if (size > most) {
            most = size;
            largest = databases[begin];
        }
    }
    return largest;
}

// Makes room for one more worker. If all workers in the table are connected, removes the worker that has been silent
// for the longest time from the database with the most workers, so that no database can evict all workers of another
// database.
void make_room(core::Micros now) {
    if (entries.has_room(1)) return;
    drop_expired(now);
    if (entries.has_room(1)) return;
    const Oid from = largest_database();
    Entry *oldest = nullptr;
    for_each_worker([&](Entry *entry) {
        if (entry->database == from && (oldest == nullptr || entry->worker.heard_at < oldest->worker.heard_at))
            oldest = entry;
    });
    entries.give_back(oldest, &board->all);
    note_evictions(Part::ConnectedWorkers);
}

Entry *find_worker(uint64 hash) {
    return entries.find(MyDatabaseId, hash, [](const Entry &entry) { return entry.worker.name() == memo.name(); });
}

// Writes the memo to the worker's entry.
void write_memo(uint64 hash, core::Micros now) {
    Entry *entry = find_worker(hash);
    core::Micros claimed_at = memo.claimed_at;
    if (entry == nullptr) {
        make_room(now);
        entry = entries.take(MyDatabaseId, hash, &board->all);
        entry->first_heard_at = now;
    } else {
        claimed_at = Max(claimed_at, entry->worker.claimed_at);
    }
    memcpy(&entry->worker, &memo, offsetof(Worker, info) + static_cast<size_t>(memo.info_size));
    entry->worker.claimed_at = claimed_at;
}

// ----

// Selects the number of running jobs of each worker that runs any. $1 contains the ids of running jobs that are not in
// the rescue index yet.
Statement count_running = {
    R"(SELECT r.worker_id, count(*)
       FROM (SELECT j.id, j.worker_id FROM jobq.jobs j WHERE j._rescue_indexed AND j.status = 'processing'
             UNION
             SELECT j.id, j.worker_id FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status = 'processing') r
       WHERE r.worker_id IS NOT NULL GROUP BY r.worker_id)",
    {INT8ARRAYOID}};

ConnectedWorker *find_by_id(const ConnectedWorkers &workers, std::string_view id) {
    ConnectedWorker *end = workers.items + workers.count;
    ConnectedWorker *found = std::lower_bound(
        workers.items, end, id,
        [](const ConnectedWorker &worker, std::string_view wanted) { return worker.info.worker_id < wanted; });
    return found != end && found->info.worker_id == id ? found : nullptr;
}

ConnectedWorker describe(const Entry &entry, core::Micros monotonic, TimestampTz now) {
    const Worker &worker = entry.worker;
    const auto wall = [&](core::Micros at) { return now - (monotonic - at); };
    ConnectedWorker read = {};
    read.info = read_worker_info(reinterpret_cast<const Jsonb *>(worker.info));
    read.started_at = worker.started_at == DT_NOBEGIN ? wall(entry.first_heard_at) : worker.started_at;
    read.last_seen = wall(worker.heard_at);
    read.last_claim = worker.claimed_at == 0 ? DT_NOBEGIN : wall(worker.claimed_at);
    read.is_silent = !worker.is_live(monotonic);
    return read;
}

void add_running(const ConnectedWorkers &workers) {
    // A job leaves the unindexed jobs when the transaction that indexes it has committed. The latest snapshot, which is
    // taken after the unindexed jobs were read, shows the job in one of the two places.
    const Params params = Params().add(unindexed_jobs());
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const Rows running = read(count_running, params, latest);
    UnregisterSnapshot(latest);
    for (uint64 i = 0; i < running.size(); i++)
        if (ConnectedWorker *worker = find_by_id(workers, running[i].text_at(1)))
            worker->running = running[i].int64_at(2);
}

void add_states(const ConnectedWorkers &workers) {
    int waiting;
    const int64 *keys = read_waiting_workers(&waiting);
    for (int i = 0; i < workers.count; i++) {
        ConnectedWorker *worker = &workers.items[i];
        const bool waits = std::binary_search(keys, keys + waiting, core::worker_key(worker->info.worker_id));
        worker->state = waits ? WorkerState::Waiting : worker->running > 0 ? WorkerState::Busy : WorkerState::Idle;
    }
}

bool contains(const Names &names, std::string_view name) {
    return std::find(names.items, names.items + names.count, name) != names.items + names.count;
}

}  // namespace

std::string_view known_worker_id(const Jsonb *info) {
    remember(info);
    return memo.name();
}

void note_given_worker(const Jsonb *info, bool claimed) {
    if (board == nullptr) return;
    remember(info);
    const core::Micros now = monotonic_now();
    core::Micros *noted_at = claimed ? &memo.claimed_at : &memo.heard_at;
    if (*noted_at != 0 && now - *noted_at < Min(kNoteEvery, memo.expires_in / 4)) return;
    memo.heard_at = now;
    if (claimed) memo.claimed_at = now;
    const uint64 hash = hash_of(memo.name());
    LWLockAcquire(workers_lock(), LW_EXCLUSIVE);
    if (memo.expires_in > 0)
        write_memo(hash, now);
    else if (Entry *entry = find_worker(hash))
        entries.give_back(entry, &board->all);
    LWLockRelease(workers_lock());
}

ConnectedWorkers connected_workers() {
    ConnectedWorkers workers = {nullptr, 0};
    // On a standby, no workers are recorded, because no worker claims jobs there.
    if (board == nullptr || RecoveryInProgress()) return workers;
    // Copies the entries under the lock and converts them after the lock is released, because the conversion allocates
    // memory, which can fail.
    auto *copies = allocate_array<Entry>(kWorkers);
    LWLockAcquire(workers_lock(), LW_SHARED);
    for_each_worker([&](const Entry *entry) {
        if (entry->database == MyDatabaseId)
            memcpy(&copies[workers.count++], entry,
                   offsetof(Entry, worker) + offsetof(Worker, info) + static_cast<size_t>(entry->worker.info_size));
    });
    LWLockRelease(workers_lock());
    if (workers.count == 0) return workers;
    workers.items = allocate_array<ConnectedWorker>(static_cast<uint64>(workers.count));
    const core::Micros monotonic = monotonic_now();
    const TimestampTz now = GetCurrentTimestamp();
    for (int i = 0; i < workers.count; i++) workers.items[i] = describe(copies[i], monotonic, now);
    std::sort(workers.items, workers.items + workers.count,
              [](const ConnectedWorker &a, const ConnectedWorker &b) { return a.info.worker_id < b.info.worker_id; });
    add_running(workers);
    add_states(workers);
    workers.count = static_cast<int>(std::remove_if(workers.items, workers.items + workers.count,
                                                    [](const ConnectedWorker &worker) { return worker.is_gone(); }) -
                                     workers.items);
    return workers;
}

bool serves(const ConnectedWorker &worker, std::string_view queue) {
    const Names &patterns = worker.info.patterns;
    return contains(worker.info.queues, queue) ||
           std::any_of(patterns.items, patterns.items + patterns.count,
                       [queue](std::string_view pattern) { return core::matches_pattern(pattern, queue, pg_mblen); });
}

bool handles(const ConnectedWorker &worker, std::string_view kind) {
    return worker.info.kinds.items == nullptr || contains(worker.info.kinds, kind);
}

Size connected_workers_size() { return add_size(MAXALIGN(sizeof(Board)), HashTable<Entry>::size(kWorkers)); }

void make_connected_workers(void *memory, bool fresh) {
    board = static_cast<Board *>(memory);
    entries.attach(static_cast<char *>(memory) + MAXALIGN(sizeof(Board)), kWorkers, fresh);
    if (fresh) board->all = kNoEntry;
}

SharedUsage connected_workers_usage() {
    LWLockAcquire(workers_lock(), LW_SHARED);
    const int64 taken = entries.taken();
    LWLockRelease(workers_lock());
    return {taken, kWorkers, evictions(Part::ConnectedWorkers)};
}

}  // namespace jobq
