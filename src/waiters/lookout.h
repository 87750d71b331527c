// The lookout is a sleeper that scans the table every kLookoutGap, so that commits do not have to wake a sleeper for
// each job. A queue has lookouts, at most one for each filter, only while wake-ups are useless.
//
// A wake-up is useless if the woken worker finds that another worker has already claimed the job. On a busy machine,
// this happens often, and each useless wake-up costs half as much processor time as a job. So if the last kUselessWakes
// wake-ups of a session were useless, the session becomes the lookout when it sleeps again. While there is a lookout:
//  - A commit wakes no sleeper for jobs that match the lookout's filter, unless a lane has more of these jobs than the
//    lookout can claim at once.
//  - A claim does not check whether it has left jobs in lanes that match the lookout's filter.
//  - A sleeper with the same filter does not scan the table when it begins to wait, unless its timeout is shorter than
//    kOnItsWay.
// These commits, claims, and sleepers rely on the next scan by the lookout. When the lookout has found a job, it leaves
// to claim the job. Another sleeper with the same filter becomes the lookout if at least kMinRelying commits, claims,
// and sleepers relied on the scan, and if the queue has had lookouts for less than kLookoutSpell. Otherwise, the queue
// returns to wake-ups, because wake-ups might be useful again. The queue also returns to wake-ups if a scan found no
// job and no commit, claim, or sleeper relied on it.
//
// No wake-up is lost. A commit, claim, or sleeper that relies on the lookout increments Waiter::relying under the
// shared lock. The lookout sets this counter to 0 before it takes the snapshot of its scan, so the scan sees all jobs
// that were left to the lookout before. A session that stops being the lookout while the counter is not 0 makes another
// sleeper scan the table. Commits, claims, and sleepers do not rely on a lookout whose last scan was longer ago than
// kOnItsWay, for example because its process has been stopped.
#pragma once

#include "compat/pg.h"

#include "core/job.h"
#include "core/wake.h"

#include <string_view>

namespace jobq {

class Alarm;
struct Partition;
struct QueueKey;

// Time between two scans by the lookout, and thus the maximum time by which a lookout delays a job that no other worker
// claims.
constexpr core::Micros kLookoutGap = 20 * core::kMillisecond;

// Begins a scan of the table. If another session requests a scan after this call, the table is scanned once more.
void begin_look();
// Ends a scan that found no job to claim. Must be called before the session sleeps again. Makes this session the
// lookout if its last wake-ups were useless and there is no other lookout for its queue and filter. If the session is
// already the lookout and no other session relied on it, makes it an ordinary sleeper again.
void end_look();

// Returns true if there is a lookout for this session's queue and filter, so that this session need not scan the table.
bool lookout_scans();
// Returns true if there is a lookout that will find these jobs of the lane and can claim them all.
bool leave_to_lookout(std::string_view queue, const core::LaneTraits &lane, int64 jobs);

// ---- Functions for other files of this directory.

bool leave_to_lookout(const QueueKey &queue, const core::LaneTraits &lane, int64 jobs);

// Records whether a claim to which jobs had been promised got any jobs.
void note_promised_claim(bool got_any);
// If this session is the lookout, ends this role. If commits, claims, or sleepers rely on a scan, makes another sleeper
// with the same queues and filter scan the table, as the lookout if lookouts are still useful. Returns false if no
// other sleeper takes over. In this case, the caller must make some sleepers scan the table. The caller must hold the
// lock of the partition.
bool end_lookout(Partition *partition, core::Micros now, Alarm *alarm);

}  // namespace jobq
