// Sessions that sleep in lists in shared memory until others wake them: what the waiters for jobs to claim
// (claim/waiters.h) and those for a job's end (wait/job_waiters.h) have in common. The lists are guarded by locks of
// their users.
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

// The first member of a session's entry.
struct Sleeper {
    dlist_node node;  // first: a pointer to it is a pointer to the entry
    PGPROC *proc;
    Oid database;
};

// Those who sleep, in the order in which they came, and how many, which may be read without the lock.
struct SleeperList {
    pg_atomic_uint32 count;
    dlist_head sleeping;
};

inline void make_list(SleeperList *list) {
    pg_atomic_init_u32(&list->count, 0);
    dlist_init(&list->sleeping);
}

inline bool is_empty(SleeperList *list) { return pg_atomic_read_u32(&list->count) == 0; }

// Lock held exclusively.
inline void add_sleeper(SleeperList *list, Sleeper *sleeper) {
    dlist_push_tail(&list->sleeping, &sleeper->node);
    pg_atomic_fetch_add_u32(&list->count, 1);
}

inline void remove_sleeper(SleeperList *list, Sleeper *sleeper) {
    dlist_delete(&sleeper->node);
    pg_atomic_fetch_sub_u32(&list->count, 1);
}

// Calls visit for the entries of this database in a list, in their order, as long as it returns true. It may take the
// entry off the list or move it to the front. Lock held.
template <typename Entry, typename Visit>
void while_sleeper(SleeperList *list, Visit visit) {
    static_assert(offsetof(Sleeper, node) == 0);
    // The server's macros for this are not for C++.
    const dlist_node *end = &list->sleeping.head;
    dlist_node *next;
    for (dlist_node *node = end->next; node != end; node = next) {
        next = node->next;
        auto *entry = reinterpret_cast<Entry *>(node);
        if (entry->sleeper.database == MyDatabaseId && !visit(entry)) return;
    }
}

// The same for all of them.
template <typename Entry, typename Visit>
void for_each_sleeper(SleeperList *list, Visit visit) {
    while_sleeper<Entry>(list, [&](Entry *entry) {
        visit(entry);
        return true;
    });
}

// Moves an entry to the front of its list. Lock held exclusively.
inline void move_to_front(SleeperList *list, Sleeper *sleeper) {
    dlist_delete(&sleeper->node);
    dlist_push_head(&list->sleeping, &sleeper->node);
}

// The session's own entry of an array with one for each backend: ordinary backends and background workers come first
// among the server's processes. leave() is called when the session ends without a chance to leave in order.
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

// Latches to be set after the lock has been released: who wakes up wants it next.
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
