// See recent_filters.h. Shared memory has room for a fixed number of filters. If there is no room, a new filter
// replaces the least recently used filter; from then on, the list of filters is complete only for the time after the
// last use of the replaced filter.
#include "compat/pg.h"

#include "compat/queue_name.h"
#include "metrics/recent_filters.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "access/xlog.h"
#include "common/hashfn.h"
}

namespace jobq {

namespace {

constexpr int kFilters = 512;
constexpr int kFilterBytes = 768;
constexpr int kMemos = 1024;

// A recorded filter. `names` contains the versions (four bytes each), followed by the names of the kinds and
// capabilities, each preceded by its length (two bytes).
struct Filter {
    uint64 digest;  // hash of database, queue, and filter; 0 if unused
    TimestampTz asked_at;
    Oid database;
    QueueName queue;
    bool known;
    bool any_kind, any_version;
    int kind_count, version_count, capability_count;
    char names[kFilterBytes];
};

struct Board {
    TimestampTz known_since;
    Filter filters[kFilters];
};

Board *board = nullptr;

// A filter that this session has recorded, and the time when it was recorded.
struct Memo {
    uint64 digest;
    TimestampTz noted_at;
};
Memo memos[kMemos];

LWLock *filters_lock() { return shared_lock(Part::RecentFilters); }

uint64 add_bytes(uint64 digest, const void *bytes, size_t size) {
    return hash_bytes_extended(static_cast<const unsigned char *>(bytes), static_cast<int>(size), digest);
}

uint64 add_names(uint64 digest, const std::string_view *names, int count) {
    digest = add_bytes(digest, &count, sizeof(count));
    for (int i = 0; i < count; i++) digest = add_bytes(digest, names[i].data(), names[i].size());
    return digest;
}

uint64 digest_of(std::string_view queue, const core::WorkerFilter &filter) {
    uint64 digest = add_bytes(MyDatabaseId, queue.data(), queue.size());
    if (filter.kinds != nullptr) digest = add_names(digest, filter.kinds, filter.kind_count);
    if (filter.versions != nullptr)
        digest = add_bytes(digest ^ 1, filter.versions, sizeof(int32) * static_cast<size_t>(filter.version_count));
    if (filter.capabilities != nullptr) digest = add_names(digest ^ 2, filter.capabilities, filter.capability_count);
    return digest | 1;
}

// Writes the names, beginning at `at`. Returns the end of the last name, or nullptr if there is no room.
char *write_names(char *at, const char *end, const std::string_view *names, int count) {
    for (int i = 0; i < count; i++) {
        const auto size = static_cast<uint16>(names[i].size());
        if (end - at < static_cast<ptrdiff_t>(sizeof(size) + size)) return nullptr;
        memcpy(at, &size, sizeof(size));
        memcpy(at + sizeof(size), names[i].data(), size);
        at += sizeof(size) + size;
    }
    return at;
}

const char *read_names(const char *at, std::string_view *names, int count) {
    for (int i = 0; i < count; i++) {
        uint16 size;
        memcpy(&size, at, sizeof(size));
        names[i] = {at + sizeof(size), size};
        at += sizeof(size) + size;
    }
    return at;
}

bool write_filter(const core::WorkerFilter &filter, Filter *to) {
    to->any_kind = filter.kinds == nullptr;
    to->any_version = filter.versions == nullptr;
    to->kind_count = to->any_kind ? 0 : filter.kind_count;
    to->version_count = to->any_version ? 0 : filter.version_count;
    to->capability_count = filter.capabilities == nullptr ? 0 : filter.capability_count;
    const char *end = to->names + kFilterBytes;
    char *at = to->names;
    const Size versions = sizeof(int32) * static_cast<Size>(to->version_count);
    if (versions > kFilterBytes) return false;
    if (versions > 0) memcpy(at, filter.versions, versions);
    at = write_names(at + versions, end, filter.kinds, to->kind_count);
    return at != nullptr && write_names(at, end, filter.capabilities, to->capability_count) != nullptr;
}

// Converts a recorded filter. The names in the result point into `from`, so `from` must outlive the result.
RecentFilter read_filter(const Filter &from) {
    RecentFilter read = {};
    read.known = from.known;
    read.asked_at = from.asked_at;
    if (!from.known) return read;
    auto *versions = static_cast<int32 *>(palloc(sizeof(int32) * Max(from.version_count, 1)));
    memcpy(versions, from.names, sizeof(int32) * static_cast<Size>(from.version_count));
    auto *kinds = static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(from.kind_count, 1)));
    auto *capabilities =
        static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(from.capability_count, 1)));
    const char *at =
        read_names(from.names + sizeof(int32) * static_cast<Size>(from.version_count), kinds, from.kind_count);
    read_names(at, capabilities, from.capability_count);
    read.filter = {.kinds = from.any_kind ? nullptr : kinds,
                   .kind_count = from.kind_count,
                   .versions = from.any_version ? nullptr : versions,
                   .version_count = from.version_count,
                   .capabilities = capabilities,
                   .capability_count = from.capability_count};
    return read;
}

// Returns the entry with this digest. If there is none, returns an entry that the caller can overwrite: a free entry or
// the least recently used entry.
Filter *place_of(uint64 digest) {
    Filter *oldest = &board->filters[0];
    for (Filter &filter : board->filters) {
        if (filter.digest == digest) return &filter;
        if (filter.digest == 0 ? oldest->digest != 0 : oldest->digest != 0 && filter.asked_at < oldest->asked_at)
            oldest = &filter;
    }
    return oldest;
}

bool is_of(const Filter &filter, std::string_view queue) {
    return filter.digest != 0 && filter.database == MyDatabaseId && queue == queue_view(filter.queue);
}

}  // namespace

Size recent_filters_size() { return sizeof(Board); }

void make_recent_filters(void *memory, bool fresh) {
    board = static_cast<Board *>(memory);
    if (!fresh) return;
    board->known_since = GetCurrentTimestamp();
}

SharedUsage recent_filters_usage() {
    int64 entries = 0;
    LWLockAcquire(filters_lock(), LW_SHARED);
    for (const Filter &filter : board->filters) entries += filter.digest != 0;
    LWLockRelease(filters_lock());
    return {entries, kFilters, evictions(Part::RecentFilters)};
}

void note_filter(std::string_view queue, const core::WorkerFilter &filter, TimestampTz now) {
    if (board == nullptr) return;
    const uint64 digest = digest_of(queue, filter);
    Memo *memo = &memos[digest / 2 % kMemos];
    if (memo->digest == digest && now >= memo->noted_at && now - memo->noted_at < kNoteEvery) return;
    *memo = {digest, now};
    LWLockAcquire(filters_lock(), LW_EXCLUSIVE);
    Filter *place = place_of(digest);
    if (place->digest != digest) {
        // Adds kNoteEvery to the time of the last record, because a session that has recorded a filter can use the
        // filter for this long without recording it again.
        if (place->digest != 0) board->known_since = Max(board->known_since, place->asked_at + kNoteEvery);
        if (place->digest != 0 && place->asked_at > now - kRecent) note_evictions(Part::RecentFilters);
        memset(place, 0, sizeof(*place));
        place->digest = digest;
        place->database = MyDatabaseId;
        copy_queue(place->queue, queue);
        place->known = write_filter(filter, place);
    }
    place->asked_at = now;
    LWLockRelease(filters_lock());
}

RecentFilters recent_filters(std::string_view queue, TimestampTz now) {
    RecentFilters found = {nullptr, 0, DT_NOEND};
    // On a standby, no filters are recorded, because no worker claims jobs there.
    if (board == nullptr || RecoveryInProgress()) return found;
    const TimestampTz askable = writing_since();
    // Copies the filters under the lock and converts them after the lock is released, because the conversion allocates
    // memory, which can fail.
    auto *copies = static_cast<Filter *>(palloc(sizeof(Filter) * kFilters));
    LWLockAcquire(filters_lock(), LW_SHARED);
    found.since = Max(Max(board->known_since, askable), now - kRecent);
    for (const Filter &filter : board->filters)
        if (is_of(filter, queue) && filter.asked_at > now - kRecent - kNoteEvery) copies[found.count++] = filter;
    LWLockRelease(filters_lock());
    found.items = static_cast<RecentFilter *>(palloc(sizeof(RecentFilter) * Max(found.count, 1)));
    for (int i = 0; i < found.count; i++) found.items[i] = read_filter(copies[i]);
    return found;
}

}  // namespace jobq
