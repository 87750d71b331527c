// Hash tables in shared memory for entries that must not be evicted. They use separate chaining (D. E. Knuth, "The Art
// of Computer Programming", volume 3, section 6.4) with a fixed number of entries, each of which is in the list of its
// bucket and in a list of all entries of its database. The server's own hash table (dynahash) has no list per database,
// and it can raise an error when it is full, but no error is allowed after a commit.
//
// The caller provides the lock and must hold it exclusively while it calls take() or give_back(), because these
// functions change the lists.
#pragma once

#include "compat/pg.h"
#include "shmem/spread.h"

namespace jobq {

constexpr int kNoEntry = -1;  // the end of a list, including an empty list

// The first members of every Entry.
struct ChainedEntry {
    Oid database;
    int next;  // next entry in its bucket or in the list of free entries
    int next_in_database;
    uint64 hash;
};

// The handle through which a process accesses a table.
template <typename Entry>
class HashTable {
 public:
    static Size size(int capacity) {
        const Size lists = MAXALIGN(mul_size(bucket_count_for(capacity), sizeof(int)));
        return add_size(add_size(MAXALIGN(sizeof(Header)), lists), mul_size(capacity, sizeof(Entry)));
    }

    // Attaches size(capacity) bytes of shared memory. `fresh` means that the memory is all zero and that no process has
    // attached it yet.
    void attach(void *memory, int capacity, bool fresh) {
        auto *at = static_cast<char *>(memory);
        header_ = reinterpret_cast<Header *>(at);
        at += MAXALIGN(sizeof(Header));
        buckets_ = reinterpret_cast<int *>(at);
        at += MAXALIGN(sizeof(int) * bucket_count_for(capacity));
        entries_ = reinterpret_cast<Entry *>(at);
        if (!fresh) return;
        header_->capacity = capacity;
        header_->bucket_count = bucket_count_for(capacity);
        for (int i = 0; i < header_->bucket_count; i++) buckets_[i] = kNoEntry;
        for (int i = 0; i < capacity; i++) entries_[i].next = i + 1 < capacity ? i + 1 : kNoEntry;
    }

    int capacity() const { return header_->capacity; }
    int taken() const { return header_->taken; }
    bool has_room(int wanted) const { return header_->capacity - header_->taken >= wanted; }

    // Returns the entry of the database that has this hash and for which is(entry) returns true, or nullptr if there is
    // none.
    template <typename Is>
    Entry *find(Oid database, uint64 hash, Is is) const {
        for (int i = *bucket_of(database, hash); i != kNoEntry; i = entries_[i].next) {
            Entry *entry = &entries_[i];
            if (entry->hash == hash && entry->database == database && is(*entry)) return entry;
        }
        return nullptr;
    }

    // Takes a free entry and adds it to the list of the database. The members that are specific to Entry keep their old
    // values. Returns nullptr if no entry is free.
    Entry *take(Oid database, uint64 hash, int *list) const {
        const int index = header_->free;
        if (index == kNoEntry) return nullptr;
        Entry *entry = &entries_[index];
        header_->free = entry->next;
        header_->taken++;
        entry->database = database;
        entry->hash = hash;
        push(bucket_of(database, hash), index, &Entry::next);
        push(list, index, &Entry::next_in_database);
        return entry;
    }

    void give_back(Entry *entry, int *list) const {
        const int index = static_cast<int>(entry - entries_);
        unlink(bucket_of(entry->database, entry->hash), index, &Entry::next);
        unlink(list, index, &Entry::next_in_database);
        entry->database = InvalidOid;
        push(&header_->free, index, &Entry::next);
        header_->taken--;
    }

    void give_back_all(int *list) const {
        while (*list != kNoEntry) give_back(&entries_[*list], list);
    }

    // Calls body(entry) for each entry in the list of a database. body() is allowed to free the entry.
    template <typename Body>
    void each(int list, Body body) const {
        for (int i = list; i != kNoEntry;) {
            const int next = entries_[i].next_in_database;
            body(&entries_[i]);
            i = next;
        }
    }

    int count(int list) const {
        int count = 0;
        each(list, [&](const Entry *) { count++; });
        return count;
    }

 private:
    struct Header {
        int capacity;
        int taken;
        int bucket_count;
        int free;  // the first free entry
    };

    static int bucket_count_for(int capacity) {
        int count = 16;
        while (count < capacity) count *= 2;
        return count;
    }

    int *bucket_of(Oid database, uint64 hash) const {
        return &buckets_[spread(database, static_cast<int64>(hash)) % static_cast<uint32>(header_->bucket_count)];
    }

    void push(int *list, int index, int Entry::*next) const {
        entries_[index].*next = *list;
        *list = index;
    }

    void unlink(int *link, int index, int Entry::*next) const {
        while (*link != index) link = &(entries_[*link].*next);
        *link = entries_[index].*next;
    }

    Header *header_ = nullptr;
    int *buckets_ = nullptr;
    Entry *entries_ = nullptr;
};

}  // namespace jobq
