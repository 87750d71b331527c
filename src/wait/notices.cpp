// See notices.h. Each database has a board: a small hash table of queue names, which the background worker reads and
// empties in one step. A commit that finds the tag of its queue on the board need not do anything, because the
// background worker has not taken the notice yet and will send it after this commit.
#include "compat/pg.h"

#include "shmem/memory.h"
#include "wait/notices.h"

namespace jobq {

namespace {

struct Notice {
    pg_atomic_uint64 tag;  // hash of database and queue; 0: free
    QueueName queue;
};

struct Board {
    pg_atomic_uint32 waiting;
    pg_atomic_uint32 anything;
    volatile Oid database;
    Notice notices[kMaxNotices];
};

Board *boards = nullptr;

Board *board_of(const DatabaseState *db) { return &boards[db - shared_state()->databases]; }

LWLock *notices_lock() { return shared_lock(Part::Notices); }

void wipe(Board *board, Oid database) {
    pg_atomic_write_u32(&board->waiting, 0);
    pg_atomic_write_u32(&board->anything, 0);
    for (Notice &notice : board->notices) pg_atomic_write_u64(&notice.tag, 0);
    // The barrier ensures that a session that has found its own database on the board does not read notices of another
    // database afterward; see is_posted().
    pg_write_barrier();
    board->database = database;
}

uint64 tag_of(const char *queue) { return digest_of_queue(queue_view(queue)) | 1; }

// Returns the notice with this tag or, if there is no such notice, the free entry in which to store it. Returns nullptr
// if the board is full.
Notice *find_notice(Board *board, uint64 tag) {
    for (uint64 step = 0; step < kMaxNotices; step++) {
        Notice *notice = &board->notices[(tag / 2 + step) % kMaxNotices];
        const uint64 there = pg_atomic_read_u64(&notice->tag);
        if (there == tag || there == 0) return notice;
    }
    return nullptr;
}

bool is_posted(Board *board, uint64 tag) {
    // The commit must be visible to other sessions before this session relies on a notice that the background worker
    // has not taken yet.
    pg_memory_barrier();
    // The board might still contain notices of the database that used this board before.
    if (board->database != MyDatabaseId) return false;
    pg_read_barrier();
    if (pg_atomic_read_u32(&board->anything) != 0) return true;
    const Notice *notice = find_notice(board, tag);
    return notice != nullptr && pg_atomic_read_u64(const_cast<pg_atomic_uint64 *>(&notice->tag)) == tag;
}

template <typename Write>
void post(DatabaseState *db, Write write) {
    Board *board = board_of(db);
    LWLockAcquire(notices_lock(), LW_EXCLUSIVE);
    bool first = false;
    if (belongs_here(db)) {
        if (board->database != MyDatabaseId) wipe(board, MyDatabaseId);
        write(board);
        first = pg_atomic_exchange_u32(&board->waiting, 1) == 0;
    }
    LWLockRelease(notices_lock());
    // Only the first notice on the board needs to wake the background worker.
    if (first) call_worker(db);
}

}  // namespace

Size notices_size() { return sizeof(Board) * kMaxDatabases; }

void make_notices(void *memory, bool fresh) {
    boards = static_cast<Board *>(memory);
    if (!fresh) return;
    for (int i = 0; i < kMaxDatabases; i++) {
        pg_atomic_init_u32(&boards[i].waiting, 0);
        pg_atomic_init_u32(&boards[i].anything, 0);
        for (Notice &notice : boards[i].notices) pg_atomic_init_u64(&notice.tag, 0);
    }
}

void post_notice(const char *queue) {
    const uint64 tag = tag_of(queue);
    for_session_database([&](DatabaseState *db) {
        if (is_posted(board_of(db), tag)) return;
        post(db, [&](Board *board) {
            Notice *notice = find_notice(board, tag);
            if (notice == nullptr) {
                note_evictions(Part::Notices);
                pg_atomic_write_u32(&board->anything, 1);
            } else {
                memcpy(notice->queue, queue, sizeof(QueueName));
                pg_atomic_write_u64(&notice->tag, tag);
            }
        });
    });
}

void post_notice_of_anything() {
    for_session_database(
        [](DatabaseState *db) { post(db, [](Board *board) { pg_atomic_write_u32(&board->anything, 1); }); });
}

bool notices_waiting(DatabaseState *db) { return pg_atomic_read_u32(&board_of(db)->waiting) != 0; }

void take_notices(DatabaseState *db, Notices *taken) {
    taken->count = 0;
    Board *board = board_of(db);
    LWLockAcquire(notices_lock(), LW_EXCLUSIVE);
    const bool ours = board->database == MyDatabaseId;
    taken->anything = ours && pg_atomic_read_u32(&board->anything) != 0;
    for (Notice &notice : board->notices)
        if (ours && pg_atomic_read_u64(&notice.tag) != 0)
            memcpy(taken->queues[taken->count++], notice.queue, sizeof(QueueName));
    wipe(board, MyDatabaseId);
    LWLockRelease(notices_lock());
}

SharedUsage notices_usage() {
    int64 entries = 0;
    LWLockAcquire(notices_lock(), LW_SHARED);
    for (Board *board = boards; board < boards + kMaxDatabases; board++)
        for (Notice &notice : board->notices) entries += pg_atomic_read_u64(&notice.tag) != 0;
    LWLockRelease(notices_lock());
    return {entries, int64{kMaxDatabases} * kMaxNotices, evictions(Part::Notices)};
}

}  // namespace jobq
