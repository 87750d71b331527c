// See line_start.h.
#include "compat/pg.h"

#include "core/ablation.h"
#include "groups/line_start.h"
#include "log/logged.h"
#include "row/jobs_table.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "shmem/spread.h"

extern "C" {
#include "storage/spin.h"
}

namespace jobq {

namespace {

constexpr int kPlaces = 8192;
constexpr int kUnknowns = 64;

struct Place {
    slock_t lock;
    uint32 looks;     // number of scans in progress
    int64 published;  // the lowest id of a job that has entered a line since the first of these scans began
    Oid database;
    int32 saved;  // number of entries that scans have passed; halved when another group finds the slot taken
    int64 group;
    int64 first;
    uint64 epoch;    // kNoEpoch: nothing is known
    uint64 unknown;  // times_unknown_here() when the scan that found `first` began
};

struct Places {
    pg_atomic_uint64 unknown[kUnknowns];
    Place items[kPlaces];
};
Places *places = nullptr;

// A scan ("look") in which this transaction searches the line of a group.
struct Look {
    int64 group;
    int64 first;   // the lowest id that the scan has found in line
    uint64 epoch;  // kNoEpoch: the scan has no result
    uint64 unknown;
    int32 passed;
    int level;   // nesting level of the transaction; the snapshot shows changes of this level
    bool whole;  // the scan has read the line from its first entry
};
constexpr int kMaxLooks = 2048;
constexpr int kNoLook = -1;
constexpr int kRolledBack = -1;  // value of Look::level after a rollback of the savepoint
Look looks[kMaxLooks];
int look_count = 0;

Place *place_of(int64 group) { return &places->items[spread(MyDatabaseId, group) % kPlaces]; }

// Calls body(place) while holding the spinlock of the group's slot. The body must run only a few instructions.
template <typename Body>
auto with_place(int64 group, Body body) {
    Place *place = place_of(group);
    SpinLockAcquire(&place->lock);
    const auto result = body(place);
    SpinLockRelease(&place->lock);
    return result;
}

bool is_of(const Place &place, int64 group) {
    return place.epoch != kNoEpoch && place.group == group && place.database == MyDatabaseId;
}

// Returns the counter of a database. forget_lines() increments the counter when it is no longer known which jobs have
// entered the lines in the database. Several databases can share a counter.
pg_atomic_uint64 *times_unknown(Oid database) { return &places->unknown[database % kUnknowns]; }

uint64 times_unknown_here() { return pg_atomic_read_u64(times_unknown(MyDatabaseId)); }

void keep(const Look &look) {
    with_place(look.group, [&](Place *place) {
        const int64 first = Min(look.first, place->published);
        const bool current =
            place->database != MyDatabaseId || (place->epoch == look.epoch && place->unknown == look.unknown);
        if (place->epoch != kNoEpoch && current && !is_of(*place, look.group) && place->saved > look.passed) {
            // Halves the count of the group that has the slot. If that group is no longer used, the slot thus
            // eventually becomes free for another group.
            place->saved /= 2;
            return false;
        }
        const bool goes_on =
            !look.whole && is_of(*place, look.group) && place->epoch == look.epoch && place->unknown == look.unknown;
        if (goes_on && place->first > first) return false;
        if (place->epoch != kNoEpoch && current && !is_of(*place, look.group)) note_evictions(Part::LineStarts);
        const int64 saved = int64{goes_on ? place->saved : 0} + look.passed;
        place->saved = static_cast<int32>(Min(saved, int64{PG_INT32_MAX}));
        place->database = MyDatabaseId;
        place->group = look.group;
        place->first = first;
        place->epoch = look.epoch;
        place->unknown = look.unknown;
        return true;
    });
}

}  // namespace

int begin_line_look(int64 group) {
    // In single-user mode, sessions do not publish the jobs that enter a line, so no beginnings are recorded.
    if (!shared_memory_ready() || !IsUnderPostmaster || look_count == kMaxLooks ||
        !core::built_with(core::Mechanism::LineStarts))
        return kNoLook;
    looks[look_count] = {.group = group,
                         .first = PG_INT64_MIN,
                         .epoch = kNoEpoch,
                         .unknown = times_unknown_here(),
                         .passed = 0,
                         .level = GetCurrentTransactionNestLevel(),
                         .whole = false};
    with_place(group, [](Place *place) {
        if (place->looks++ == 0) place->published = PG_INT64_MAX;
        return true;
    });
    return look_count++;
}

int64 line_start(int look) {
    if (look == kNoLook) return PG_INT64_MIN;
    const int64 group = looks[look].group;
    const uint64 epoch = trigger_epoch();
    const uint64 unknown = times_unknown_here();
    return with_place(group, [&](const Place *place) {
        return is_of(*place, group) && place->epoch == epoch && place->unknown == unknown ? place->first : PG_INT64_MIN;
    });
}

void found_line_start(int look, int64 first, int32 passed, bool whole) {
    if (look == kNoLook || looks[look].level == kRolledBack) return;
    looks[look].first = first;
    looks[look].passed = passed;
    looks[look].whole = whole;
    looks[look].epoch = trigger_epoch();
}

void keep_line_starts() {
    for (int i = 0; i < look_count; i++)
        if (looks[i].epoch != kNoEpoch && looks[i].unknown == times_unknown_here()) keep(looks[i]);
    drop_line_starts();
}

void drop_line_starts() {
    for (; look_count > 0; look_count--)
        with_place(looks[look_count - 1].group, [](Place *place) { return --place->looks; });
}

void hand_line_looks_to_parent() {
    const int level = GetCurrentTransactionNestLevel();
    for (int i = 0; i < look_count; i++)
        if (looks[i].level == level) looks[i].level--;
}

void void_line_looks_of_savepoint() {
    const int level = GetCurrentTransactionNestLevel();
    for (int i = 0; i < look_count; i++) {
        if (looks[i].level < level) continue;
        looks[i].level = kRolledBack;
        looks[i].epoch = kNoEpoch;
    }
}

void publish_lines() {
    const TransactionLog &log = transaction_log();
    publish_line_entries(log.unblocked, log.unblocked_count, log.unblocked_unknown);
}

void forget_lines(Oid database) {
    if (shared_memory_ready()) pg_atomic_fetch_add_u64(times_unknown(database), 1);
}

void publish_line_entries(const Unblocked *unblocked, int count, Blockers anything) {
    if ((anything & bit_of(Blocker::Group)) != 0) forget_lines(MyDatabaseId);
    for (int i = 0; i < count; i++) {
        const int64 group = unblocked[i].key, job = unblocked[i].job;
        if (unblocked[i].blocker != Blocker::Group || job == kNoJob) continue;
        with_place(group, [&](Place *place) {
            if (is_of(*place, group)) place->first = Min(place->first, job);
            place->published = Min(place->published, job);
            return true;
        });
    }
}

SharedUsage line_starts_usage() {
    int64 entries = 0;
    for (Place &place : places->items) {
        SpinLockAcquire(&place.lock);
        entries += place.epoch != kNoEpoch;
        SpinLockRelease(&place.lock);
    }
    return {entries, kPlaces, evictions(Part::LineStarts)};
}

Size line_starts_size() { return sizeof(Places); }

void make_line_starts(void *memory, bool fresh) {
    places = static_cast<Places *>(memory);
    if (!fresh) return;
    for (pg_atomic_uint64 &unknown : places->unknown) pg_atomic_init_u64(&unknown, 0);
    for (Place &place : places->items) SpinLockInit(&place.lock);
}

}  // namespace jobq
