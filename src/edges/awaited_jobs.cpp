// See awaited_jobs.h. The list is a hash table of fixed size. A session checks without a lock whether a bucket is
// empty, so the completion of a job that no other job awaits rarely needs the lock.
#include "compat/pg.h"

#include "edges/awaited_jobs.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "shmem/spread.h"

extern "C" {
#include "port/atomics.h"
}

namespace jobq {

namespace {

constexpr int kBucketBits = 14;
constexpr int kBuckets = 1 << kBucketBits;
constexpr int kEntries = 16384;
// Number of entries that only databases can use. Otherwise, the jobs of one database could fill the table, and a
// database that then needs its first entry would make the jobs of all databases count as awaited (no_room).
constexpr int kReserved = kMaxDatabases;
constexpr int32 kNone = -1;
// Reserved job id of the entry that stands for the whole database. No job has this id.
constexpr int64 kDatabase = 0;

struct Entry {
    int64 job;
    Oid database;
    bool all;  // in the entry of kDatabase: a job could not be added, because the table was full
    int32 next;
    uint64 search;  // the last search that had begun when the job was added; for kDatabase: when `all` was set
};

struct AwaitedJobs {
    // No entry for a database could be added, so all jobs count as awaited until the next restart. This takes more
    // databases than the table of their states can hold.
    bool no_room;
    int32 free;
    uint64 searches;  // number of searches that have begun
    pg_atomic_uint32 count;
    pg_atomic_uint32 all_count;          // number of entries with `all`
    pg_atomic_uint32 buckets[kBuckets];  // index of the first entry + 1; 0: none
    Entry entries[kEntries];
};

AwaitedJobs *awaited = nullptr;

LWLock *lock() { return shared_lock(Part::AwaitedJobs); }

int bucket_of(int64 job) { return static_cast<int>(spread(MyDatabaseId, job) >> (32 - kBucketBits)); }

// The caller of each function below, up to and including remove(), must hold the lock.

int32 first_of(int bucket) { return static_cast<int32>(pg_atomic_read_u32(&awaited->buckets[bucket])) - 1; }
void set_first(int bucket, int32 entry) {
    pg_atomic_write_u32(&awaited->buckets[bucket], static_cast<uint32>(entry + 1));
}

Entry *find(int64 job) {
    for (int32 i = first_of(bucket_of(job)); i != kNone; i = awaited->entries[i].next) {
        Entry *entry = &awaited->entries[i];
        if (entry->job == job && entry->database == MyDatabaseId) return entry;
    }
    return nullptr;
}

enum class Added { New, Known, NoRoom };

Added add(int64 job) {
    if (Entry *known = find(job)) {
        if (job != kDatabase) known->search = awaited->searches;
        return Added::Known;
    }
    const int32 added = awaited->free;
    const bool reserved = job != kDatabase && pg_atomic_read_u32(&awaited->count) >= kEntries - kReserved;
    if (added == kNone || reserved) {
        note_evictions(Part::AwaitedJobs);
        return Added::NoRoom;
    }
    const int bucket = bucket_of(job);
    awaited->free = awaited->entries[added].next;
    awaited->entries[added] = {
        .job = job, .database = MyDatabaseId, .all = false, .next = first_of(bucket), .search = awaited->searches};
    set_first(bucket, added);
    pg_atomic_fetch_add_u32(&awaited->count, 1);
    return Added::New;
}

// Removes the entries of a bucket for which fits() returns true.
template <typename Fits>
void remove(int bucket, Fits fits) {
    int32 *link = nullptr;
    for (int32 i = first_of(bucket); i != kNone;) {
        Entry *entry = &awaited->entries[i];
        const int32 next = entry->next;
        if (!fits(*entry)) {
            link = &entry->next;
        } else {
            if (link == nullptr)
                set_first(bucket, next);
            else
                *link = next;
            if (entry->all) pg_atomic_fetch_sub_u32(&awaited->all_count, 1);
            entry->next = awaited->free;
            awaited->free = i;
            pg_atomic_fetch_sub_u32(&awaited->count, 1);
        }
        i = next;
    }
}

bool usable() { return shared_memory_ready() && IsUnderPostmaster; }

// Returns whether any job is awaited. The barrier makes sure that the caller's commit is visible before the check.
bool anything_awaited() {
    if (!usable()) return false;
    pg_memory_barrier();
    return pg_atomic_read_u32(&awaited->count) != 0 || awaited->no_room;
}

}  // namespace

void note_awaiting() {
    if (!usable()) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    if (add(kDatabase) == Added::NoRoom) awaited->no_room = true;
    LWLockRelease(lock());
}

bool await_job(int64 job) {
    if (!usable()) return false;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    const Added added = add(job);
    if (added == Added::NoRoom) {
        Entry *database = find(kDatabase);
        if (database == nullptr) {
            awaited->no_room = true;
        } else {
            if (!database->all) pg_atomic_fetch_add_u32(&awaited->all_count, 1);
            database->all = true;
            database->search = awaited->searches;
        }
    }
    LWLockRelease(lock());
    return added != Added::Known;
}

void stop_awaiting_job(int64 job) {
    if (!usable()) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    remove(bucket_of(job), [job](const Entry &entry) { return entry.job == job && entry.database == MyDatabaseId; });
    LWLockRelease(lock());
}

uint64 begin_awaited_search() {
    if (!usable()) return 0;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    const uint64 search = ++awaited->searches;
    LWLockRelease(lock());
    return search;
}

void end_awaited_search(uint64 search) {
    if (!usable()) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    for (int bucket = 0; bucket < kBuckets; bucket++)
        remove(bucket, [search](const Entry &entry) {
            return entry.database == MyDatabaseId && entry.job != kDatabase && entry.search < search;
        });
    Entry *database = find(kDatabase);
    if (database != nullptr && database->all && database->search < search) {
        database->all = false;
        pg_atomic_fetch_sub_u32(&awaited->all_count, 1);
    }
    LWLockRelease(lock());
}

void forget_awaited_jobs(Oid database) {
    if (!usable()) return;
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    for (int bucket = 0; bucket < kBuckets; bucket++)
        remove(bucket, [database](const Entry &entry) { return entry.database == database; });
    LWLockRelease(lock());
}

bool any_job_awaited() {
    if (!anything_awaited()) return false;
    LWLockAcquire(lock(), LW_SHARED);
    const bool any = awaited->no_room || find(kDatabase) != nullptr;
    LWLockRelease(lock());
    return any;
}

bool job_is_awaited(int64 job) {
    // The bucket might contain only jobs other than this one. The end of this job is then published unnecessarily,
    // which is harmless, because the promoter finds that no job waits for it.
    if (pg_atomic_read_u32(&awaited->buckets[bucket_of(job)]) != 0) return true;
    if (awaited->no_room) return true;
    if (pg_atomic_read_u32(&awaited->all_count) == 0) return false;
    LWLockAcquire(lock(), LW_SHARED);
    const Entry *database = find(kDatabase);
    const bool all = database != nullptr && database->all;
    LWLockRelease(lock());
    return all;
}

SharedUsage awaited_jobs_usage() {
    return {pg_atomic_read_u32(&awaited->count), kEntries, evictions(Part::AwaitedJobs)};
}

Size awaited_jobs_size() { return sizeof(AwaitedJobs); }

void make_awaited_jobs(void *memory, bool fresh) {
    awaited = static_cast<AwaitedJobs *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&awaited->count, 0);
    pg_atomic_init_u32(&awaited->all_count, 0);
    for (pg_atomic_uint32 &bucket : awaited->buckets) pg_atomic_init_u32(&bucket, 0);
    for (int32 i = 0; i < kEntries; i++) awaited->entries[i].next = i + 1 < kEntries ? i + 1 : kNone;
}

}  // namespace jobq
