// Set-associative tables in shared memory, built like processor caches (J. L. Hennessy, D. A. Patterson, "Computer
// Architecture: A Quantitative Approach", appendix B): a key can be stored only in one of the few entries of its set,
// and a new key evicts another key if all of these entries are used. The table therefore has a fixed size and needs
// neither chains nor a list of free entries, but it is only suitable for entries that may be lost. A new entry evicts
// an entry of the database that has the most entries in the set, so that no database can evict all entries of another
// database.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"
#include "shmem/spread.h"

#include <algorithm>

namespace jobq {

// A set of entries. An Entry has a member `database`, which is InvalidOid in a free entry.
template <typename Entry, Part part>
struct EntrySet {
    static constexpr Part kPart = part;
    static constexpr int kPlaces = 8;
    Entry entries[kPlaces];

    Entry *begin() { return entries; }
    Entry *end() { return entries + kPlaces; }

    template <typename Fits>
    Entry *find(Fits fits) {
        Entry *found = std::find_if(begin(), end(), fits);
        return found == end() ? nullptr : found;
    }

    int64 used() {
        return std::count_if(begin(), end(), [](const Entry &entry) { return entry.database != InvalidOid; });
    }

    // Returns the entry that the caller must overwrite with a new entry of the database: a free entry if there is one;
    // otherwise an entry for which needed() returns false; otherwise an entry of the database with the most entries in
    // the set, including the new entry. If several entries qualify, returns the first entry in the order of
    // goes_before().
    template <typename GoesBefore, typename Needed>
    Entry *place(Oid database, GoesBefore goes_before, Needed needed) {
        // Entries with higher ranks are evicted first. The rank of an entry that is needed is the number of entries
        // that its database has in the set, counting the new entry. This number is at most kPlaces + 1.
        const auto rank = [&](const Entry &entry) {
            if (entry.database == InvalidOid) return kPlaces + 3;
            if (!needed(entry)) return kPlaces + 2;
            int places = entry.database == database ? 1 : 0;
            for (const Entry &other : entries) places += other.database == entry.database ? 1 : 0;
            return places;
        };
        Entry *place = std::min_element(begin(), end(), [&](const Entry &a, const Entry &b) {
            const int rank_a = rank(a), rank_b = rank(b);
            return rank_a != rank_b ? rank_a > rank_b : goes_before(a, b);
        });
        if (place->database != InvalidOid && needed(*place)) note_evictions(part);
        return place;
    }

    template <typename GoesBefore>
    Entry *place(Oid database, GoesBefore goes_before) {
        return place(database, goes_before, [](const Entry &) { return true; });
    }
};

// The handle through which a process accesses a table in shared memory. Set is an EntrySet or a struct derived from
// one. The sets share the locks of Set::kPart.
template <typename Set>
struct SetTable {
    int count;
    Set *sets;

    bool exists() const { return sets != nullptr; }

    static int sets_for(int entries) { return Max(entries / Set::kPlaces, 1); }
    int room() const { return count * Set::kPlaces; }

    // Returns the index of the set that belongs to a key in this session's database.
    int set_of(int64 key) const { return static_cast<int>(spread(MyDatabaseId, key) % static_cast<uint32>(count)); }

    LWLock *lock_of(int set) const { return shared_lock(Set::kPart, set % kLockPartitions); }

    // Calls body(set) for the set that belongs to a key in this session's database. Holds the lock of the set during
    // the call.
    template <typename Body>
    auto with_set(int64 key, LWLockMode mode, Body body) const {
        const int set = set_of(key);
        LWLockAcquire(lock_of(set), mode);
        const auto result = body(&sets[set]);
        LWLockRelease(lock_of(set));
        return result;
    }

    // Calls body(entry) for each entry of this session's database, while it holds the lock of the entry's set.
    template <typename Body>
    void for_each(LWLockMode mode, Body body) const {
        for (int set = 0; set < count; set++) {
            LWLockAcquire(lock_of(set), mode);
            for (auto &entry : sets[set])
                if (entry.database == MyDatabaseId) body(&entry);
            LWLockRelease(lock_of(set));
        }
    }

    SharedUsage usage() const {
        int64 entries = 0;
        for (int set = 0; set < count; set++) {
            LWLockAcquire(lock_of(set), LW_SHARED);
            entries += sets[set].used();
            LWLockRelease(lock_of(set));
        }
        return {entries, room(), evictions(Set::kPart)};
    }
};

}  // namespace jobq
