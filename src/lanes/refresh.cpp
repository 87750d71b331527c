// See refresh.h.
#include "compat/pg.h"

#include "lanes/ready_walk.h"
#include "lanes/refresh.h"

#include <algorithm>

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// A repair reads so many entries, some 10 ms' worth, and goes on from there the next time: the round's other duties
// wait for it, and where an old snapshot keeps them there may be millions.
constexpr int kRepairPiece = 20000;

// Looks for a claimable job in the range, from `key` on, until *entries have been read; `key` is then where to go on.
// The rest of the range is published when there is one: where one is that nobody has told of there may be thousands,
// and to find them one a round would take hours.
bool publish_stranded(JobsTable *jobs, int64 lane, const core::KeyRange &keys, ClaimKey *key, int *entries) {
    if (*key < keys.from) *key = keys.from;
    if (keys.to <= *key) return false;
    seek_ready_range(jobs, lane, *key, keys.to);
    while (*entries > 0 && next_ready(jobs, key) && *key < keys.to) {
        CHECK_FOR_INTERRUPTS();
        --*entries;
        if (!fetch_ready(jobs)) continue;
        publish_keys(lane, *key, keys.to);
        return true;
    }
    return false;
}

}  // namespace

void refresh_lane(JobsTable *jobs, int64 lane, const ClaimKey &end, core::Micros pause, const ClaimKey &begin) {
    if (has_new_files(jobs->table.relation)) return;
    const uint64 epoch = trigger_epoch();
    const uint64 ticket = begin_refresh(epoch, lane, pause);
    if (ticket == 0) return;
    const EmptyRanges known = read_empty_ranges(epoch, lane);
    renew_snapshot(jobs);
    // With the number of the first command, the snapshot sees nothing that this transaction did: what it has claimed
    // counts as pending, as long as it may roll back.
    jobs->table.snapshot->curcid = FirstCommandId;

    EmptyRanges found = {};
    ClaimKey from = begin;
    int64 passed = 0;
    int seen = 0;
    const auto add = [&](const ClaimKey &to) {
        if (from == begin)
            core::add_empty(&found, {from, to}, passed + kWorthUnseen);
        else if (passed >= kWorthKeeping)
            core::add_empty(&found, {from, to}, passed);
    };
    walk_lane(
        jobs, lane, begin, end, [&](const ClaimKey &key) { return core::skip_empty(known, key); },
        [&](const ClaimKey &key) {
            if (!fetch_ready(jobs)) {
                passed++;
                return Step::Next;
            }
            add(key);
            from = core::next_key(key);
            passed = 0;
            return ++seen < kMaxJobsSeen ? Step::Next : Step::Stop;
        });
    if (seen < kMaxJobsSeen) add(end);
    finish_refresh(lane, ticket, found);
}

int64 repair_empty_ranges() {
    auto *held = static_cast<TrackedLane *>(palloc(sizeof(TrackedLane) * Max(max_tracked_lanes(), 1)));
    const uint64 epoch = trigger_epoch();
    const int count = tracked_lanes(epoch, held, max_tracked_lanes());
    int64 found = 0;
    RepairPlace place = take_repair_place();
    if (count == 0) return found;
    std::sort(held, held + count, [](const TrackedLane &a, const TrackedLane &b) { return a.lane < b.lane; });
    int entries = kRepairPiece;
    JobsTable jobs;
    open_jobs(&jobs);
    for (int i = 0; i < count; i++) {
        if (held[i].lane < place.lane) continue;
        if (place.lane < held[i].lane) place = {held[i].lane, core::kFirstKey};
        const EmptyRanges empty = read_empty_ranges(epoch, place.lane);
        renew_snapshot(&jobs);
        bool stranded = false;
        for (int r = 0; r < empty.count && entries > 0; r++)
            stranded |= publish_stranded(&jobs, place.lane, empty.items[r].keys, &place.key, &entries);
        found += stranded ? 1 : 0;
        if (entries == 0) {
            leave_repair_place(place);
            break;
        }
    }
    close_jobs(&jobs);
    return found;
}

}  // namespace jobq
