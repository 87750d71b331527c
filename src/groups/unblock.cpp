// See unblock.h.
#include "compat/pg.h"

#include "compat/async_commit.h"
#include "groups/edge_ends.h"
#include "groups/groups.h"
#include "groups/halted.h"
#include "groups/unblock.h"
#include "log/logged.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

constexpr UnblockingKind kKinds[] = {{look_at_groups, search_groups, forget_groups},
                                     {look_at_edges, search_edges, nullptr},
                                     {look_at_halted, search_halted, nullptr},
                                     {look_at_signals, nullptr, nullptr}};
static_assert(lengthof(kKinds) > kSearched);

// Maximum number of published entries that one transaction handles. The transaction must be short, because unblocked
// jobs become visible only when it commits.
constexpr int kTakeAtOnce = 256;
constexpr int kMaxAgain = 1024;
// Maximum number of keys that a search checks per transaction, so that entries that commits publish in the meantime do
// not wait long.
constexpr int kSearchAtOnce = 200;
// Minimum and maximum pause before the process tries again to change jobs that other sessions have locked.
constexpr core::Micros kShortestPause = 2000;
constexpr core::Micros kLongestPause = core::kSecond;
// Minimum pause between two searches by the repair, as a multiple of the duration of the last search.
constexpr int kSearchRest = 50;
// jobq_tick() waits up to 3 s for the background worker to release the promoter's lock. The worker's transactions take
// about a millisecond on an idle machine.
constexpr int kLockTries = 3000;
constexpr long kLockPause = 1000;

constexpr SearchPlace kBeginning = {PG_INT64_MIN, 0};

// A search through the table for one kind of blocker.
struct Search {
    bool going;
    bool once_more;  // start again from the beginning when the search has ended
    bool failed;     // a job could not be changed
    SearchPlace place;
    TimestampTz begun;
};

// The state of the promoter in the background worker. In other processes, db is nullptr, and the other members are not
// used.
struct State {
    const DatabaseState *db;  // nullptr in a session that runs jobq_tick()
    bool looked;              // this process has read the list of published entries
    bool careful;             // a transaction has failed, and no search has succeeded since then
    bool failing;             // a job could not be changed, and no search has succeeded since then
    Search searches[kSearched];
    Unblocked again[kMaxAgain];  // entries whose jobs other sessions have locked
    int again_count;
    TimestampTz again_at;
    core::Micros again_pause;
    TimestampTz locked_until;  // until then, another session is expected to hold the promoter's lock
    core::Micros lock_pause;   // 0: the last attempt to acquire the promoter's lock succeeded
};
State state = {};

void forget_kind(int kind) {
    if (kKinds[kind].forget != nullptr) kKinds[kind].forget();
}

void search_for(int kind) {
    Search *search = &state.searches[kind];
    if (search->going) {
        search->once_more = true;
        return;
    }
    search->going = true;
    search->failed = false;
    search->place = kBeginning;
    search->begun = GetCurrentTimestamp();
}

// Tries to acquire the promoter's lock, which is an object lock on jobq.jobs that is not used for anything else. The
// transaction holds the lock until its commit is visible.
bool try_lock() {
    LOCKTAG tag;
    const Oid jobs = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, jobs, 1);
    return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

bool lock_by_hand() {
    for (int i = 0; i < kLockTries; i++) {
        if (try_lock()) return true;
        CHECK_FOR_INTERRUPTS();
        pg_usleep(kLockPause);
    }
    return false;
}

bool comes_first(const Unblocked &a, const Unblocked &b) {
    if (a.blocker != b.blocker) return a.blocker < b.blocker;
    return a.key != b.key ? a.key < b.key : a.job < b.job;
}

// Sorts the entries and keeps the entry with the lowest job id for each key. Returns the number of remaining entries.
int in_order(Unblocked *published, int count) {
    std::sort(published, published + count, comes_first);
    const auto same = [](const Unblocked &a, const Unblocked &b) { return a.blocker == b.blocker && a.key == b.key; };
    return static_cast<int>(std::unique(published, published + count, same) - published);
}

void look_at(const Unblocked *published, int count, Unblocking *done) {
    for (int first = 0; first < count;) {
        const Blocker blocker = published[first].blocker;
        int end = first + 1;
        while (end < count && published[end].blocker == blocker) end++;
        const int64 failed_before = done->outcome.failed;
        kKinds[static_cast<int>(blocker)].look(published + first, end - first, done);
        if (done->outcome.failed > failed_before) state.searches[search_of(blocker)].failed = true;
        first = end;
    }
}

// Continues the search for one kind of blocker, if such a search is in progress.
void go_on_searching(int kind, int limit, Unblocking *done) {
    Search *search = &state.searches[kind];
    if (!search->going) return;
    const int64 failed_before = done->outcome.failed;
    const bool more = kKinds[kind].search(&search->place, limit, done);
    if (done->outcome.failed > failed_before) search->failed = true;
    if (more) return;
    search->going = false;
    const TimestampTz now = GetCurrentTimestamp();
    rest_from_searches(state.db, static_cast<Blocker>(kind),
                       core::saturating_add(now, kSearchRest * Max(now - search->begun, 0)));
    if (!search->once_more) return;
    search->once_more = false;
    search_for(kind);
}

bool searching() {
    return std::any_of(state.searches, state.searches + kSearched, [](const Search &search) { return search.going; });
}

bool search_failed() {
    return std::any_of(state.searches, state.searches + kSearched, [](const Search &search) { return search.failed; });
}

// Searches edges before groups, because a job whose dependencies have ended might then enter the line of its group.
// Also searches halted groups before groups, because a group that no longer halts might need a new head.
void search_everything(int limit, Unblocking *done) {
    for (int i = kSearched - 1; i >= 0; i--) {
        SearchPlace place = kBeginning;
        while (kKinds[i].search(&place, limit, done)) CHECK_FOR_INTERRUPTS();
    }
}

core::Micros longer(core::Micros pause) { return Min(Max(pause * 2, kShortestPause), kLongestPause); }

// Resumes the searches whose positions the previous worker has saved.
void go_on_with_searches() {
    for (int kind = 0; kind < kSearched; kind++) {
        SearchPlace place;
        if (!take_search(state.db, static_cast<Blocker>(kind), &place)) continue;
        search_for(kind);
        state.searches[kind].place = place;
    }
}

// Takes entries that commits have published, and entries whose jobs were locked during the last attempt. Sets *held to
// the number of entries whose jobs were locked.
int take_published(Unblocked *published, TimestampTz now, int *held) {
    Blockers anything = 0;
    if (!state.looked) go_on_with_searches();
    int count = take_unblocked(state.db, published, kTakeAtOnce, &anything);
    state.looked = true;
    for (int kind = 0; kind < kSearched; kind++) {
        if ((anything & (1U << kind)) == 0) continue;
        forget_kind(kind);
        search_for(kind);
    }
    *held = 0;
    if (state.again_count == 0 || state.again_at > now) return count;
    memcpy(published + count, state.again, sizeof(Unblocked) * state.again_count);
    *held = state.again_count;
    state.again_count = 0;
    return count + *held;
}

void unblock_published(Unblocking *done) {
    static Unblocked published[kTakeAtOnce + kMaxAgain];
    const TimestampTz now = GetCurrentTimestamp();
    int held = 0;
    const int count = take_published(published, now, &held);
    const int waiting = state.again_count;
    look_at(published, in_order(published, count), done);
    const int still_held = state.again_count - waiting;
    if (still_held == 0) return;
    state.again_pause = still_held == held ? longer(state.again_pause) : kShortestPause;
    const TimestampTz again_at = now + state.again_pause;
    state.again_at = waiting > 0 ? Min(state.again_at, again_at) : again_at;
}

}  // namespace

void look_again(const Unblocked &published) {
    if (state.db == nullptr) return;
    for (int i = 0; i < state.again_count; i++)
        if (state.again[i].blocker == published.blocker && state.again[i].key == published.key) return;
    if (state.again_count < kMaxAgain)
        state.again[state.again_count++] = published;
    else
        search_for(search_of(published.blocker));
}

DutyOutcome unblock_jobs(TimestampTz now, int batch) {
    Unblocking done = {now, state.careful || state.db == nullptr, {}, 0};
    if (IsolationUsesXactSnapshot()) return done.outcome;
    if (state.db == nullptr) {
        if (!lock_by_hand()) return done.outcome;
        begin_promoting();
        unblocking_until_commit(true);
        search_everything(batch, &done);
        // The list of awaited jobs is complete now, and is correct even if this transaction is rolled back, so a
        // rollback need not request a search.
        unblocking_until_commit(false);
        return done.outcome;
    }
    // The commit can be asynchronous, because a promotion that is lost in a crash is repeated, and changes that depend
    // on the promotion cannot be on disk without it.
    const bool may_be_lost = is_whole_transaction();
    if (!try_lock()) {
        state.lock_pause = longer(state.lock_pause);
        state.locked_until = GetCurrentTimestamp() + state.lock_pause;
        return done.outcome;
    }
    state.lock_pause = 0;
    unblocking_until_commit(true);
    if (!begin_promoting())
        for (int kind = 0; kind < kSearched; kind++) forget_kind(kind);
    unblock_published(&done);
    for (int kind = 0; kind < kSearched; kind++) go_on_searching(kind, Min(batch, kSearchAtOnce), &done);
    if (done.outcome.failed > 0) state.failing = true;
    if (!searching() && !search_failed()) state.careful = state.failing = false;
    if (may_be_lost) allow_async_commit();
    return done.outcome;
}

bool unblocking_fails() { return state.failing; }

void repair_unblocking(TimestampTz now) {
    if (state.db == nullptr) return;
    for (int kind = 0; kind < kSearched; kind++)
        // The repair does not search for halted groups, because the commit that makes them continue requests this
        // search.
        if (kind != search_of(Blocker::Halt) && !state.searches[kind].going &&
            !searches_rest(state.db, static_cast<Blocker>(kind), now))
            search_for(kind);
}

void start_unblocking(const DatabaseState *db) { state.db = db; }

void stop_unblocking() {
    if (state.db == nullptr) return;
    Blockers anything = 0;
    for (int kind = 0; kind < kSearched; kind++) {
        const Search &search = state.searches[kind];
        if (search.going) hand_on_search(state.db, static_cast<Blocker>(kind), search.place);
        if (search.once_more) anything |= 1U << kind;
    }
    give_back_unblocked(state.db, anything, state.again, state.again_count);
}

TimestampTz next_unblocking(TimestampTz now) {
    const TimestampTz free_at = state.lock_pause > 0 ? bounded(state.locked_until, now, kLongestPause) : now;
    if (!state.looked || searching() || unblocked_waiting(state.db)) return free_at;
    return state.again_count > 0 ? Max(bounded(state.again_at, now, kLongestPause), free_at) : kNothingDue;
}

void undo_unblocking() {
    if (!transaction_log().unblocking) return;
    // The list of awaited jobs might be incomplete now, so the table must be searched.
    if (state.db == nullptr) {
        unblock_anything();
        return;
    }
    // The entries that this process has taken from the list are lost, and the facts that it has cached might be wrong,
    // so it searches the table from the beginning.
    state.careful = true;
    for (int kind = 0; kind < kSearched; kind++) {
        forget_kind(kind);
        search_for(kind);
        state.searches[kind].place = kBeginning;
    }
}

void undo_unblocking_of_savepoint() {
    if (state.db == nullptr && transaction_log().unblocking) unblock_anything();
}

}  // namespace jobq
