// Lists of sleeping sessions in shared memory. A session in such a list sleeps until another session wakes it. The
// lists contain the sessions that wait for claimable jobs (waiters/waiters.h) or for the end of a job
// (wait/job_waiters.h). The modules that use a list protect it with their own locks.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
}

namespace jobq {

// The first member of a session's entry in a list of sleepers.
struct Sleeper {
    dlist_node node;  // must be first, so that a pointer to it is a pointer to the entry
    PGPROC *proc;
    Oid database;
};

// A list of sleepers, in the order in which they were added, and their number, which may be read without the lock.
struct SleeperList {
    pg_atomic_uint32 count;
    dlist_head sleeping;
};

inline void make_list(SleeperList *list) {
    pg_atomic_init_u32(&list->count, 0);
    dlist_init(&list->sleeping);
}

inline bool is_empty(SleeperList *list) { return pg_atomic_read_u32(&list->count) == 0; }

// These functions add and remove a sleeper. The caller must hold the lock exclusively.
inline void add_sleeper(SleeperList *list, Sleeper *sleeper) {
    dlist_push_tail(&list->sleeping, &sleeper->node);
    pg_atomic_fetch_add_u32(&list->count, 1);
}

inline void remove_sleeper(SleeperList *list, Sleeper *sleeper) {
    dlist_delete(&sleeper->node);
    pg_atomic_fetch_sub_u32(&list->count, 1);
}

// Calls visit(entry) for the entries of this session's database, in the order of the list, until visit() returns false.
// visit() may remove the entry from the list or move it to the front. The caller must hold the lock.
template <typename Entry, typename Visit>
void while_sleeper(SleeperList *list, Visit visit) {
    static_assert(offsetof(Sleeper, node) == 0);
    // The server's macros that iterate over a dlist do not compile in C++.
    const dlist_node *end = &list->sleeping.head;
    dlist_node *next;
    for (dlist_node *node = end->next; node != end; node = next) {
        next = node->next;
        auto *entry = reinterpret_cast<Entry *>(node);
        if (entry->sleeper.database == MyDatabaseId && !visit(entry)) return;
    }
}

// Calls visit(entry) for all entries of this session's database.
template <typename Entry, typename Visit>
void for_each_sleeper(SleeperList *list, Visit visit) {
    while_sleeper<Entry>(list, [&](Entry *entry) {
        visit(entry);
        return true;
    });
}

// Moves an entry to the front of its list. The caller must hold the lock exclusively.
inline void move_to_front(SleeperList *list, Sleeper *sleeper) {
    dlist_delete(&sleeper->node);
    dlist_push_head(&list->sleeping, &sleeper->node);
}

// Returns the session's own entry in an array with one entry per backend. The index of the entry is the index of the
// session's PGPROC. The array contains this index, because the PGPROCs of ordinary backends and background workers come
// first. leave() is called when the process exits, in case the session is still in a list.
template <typename Entry>
Entry *own_entry(Entry *entries, pg_on_exit_callback leave) {
    static bool registered = false;
    if (!registered) {
        before_shmem_exit(leave, Datum(0));
        registered = true;
    }
    Entry *entry = &entries[MyProc - ProcGlobal->allProcs];
    entry->sleeper.proc = MyProc;
    entry->sleeper.database = MyDatabaseId;
    return entry;
}

// Collects the sessions that must be woken. The caller calls ring() to wake them after it has released the lock of the
// list, because each of these sessions acquires the same lock when it wakes up.
class Alarm {
 public:
    void add(const Sleeper &sleeper) {
        if (count_ < kRoom)
            procs_[count_++] = sleeper.proc;
        else
            SetLatch(&sleeper.proc->procLatch);
    }
    void ring() {
        for (int i = 0; i < count_; i++) SetLatch(&procs_[i]->procLatch);
        count_ = 0;
    }

 private:
    static constexpr int kRoom = 64;
    PGPROC *procs_[kRoom];
    int count_ = 0;
};

}  // namespace jobq
