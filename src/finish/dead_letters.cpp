// See dead_letters.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "finish/dead_letters.h"
#include "job/change_job.h"
#include "lanes/lanes.h"
#include "queues/directory.h"
#include "row/numbers.h"

namespace jobq {

namespace {

enum class Direction { Away, Home };

// Returns the queue to which the job in table.row moves, or nullptr if the job stays in its queue.
text *destination(const JobsTable &jobs, Direction direction) {
    if (direction == Direction::Home) {
        bool none;
        const Datum from = job_value(jobs, kJobDeadFrom, &none);
        return none ? nullptr : make_text(view(DatumGetTextPP(from)));
    }
    const JobState job = state_of(jobs);
    const std::string_view queue = settings_for(*find_queue(job.queue), job.kind).dead_letter_queue;
    return queue.empty() ? nullptr : make_text(queue);
}

bool move_letter(JobsTable *jobs, Direction direction) {
    text *queue = destination(*jobs, direction);
    if (queue == nullptr) return true;
    const JobState before = state_of(*jobs);
    const int64 lane = ensure_lane(view(queue), view(DatumGetTextPP(job_value(*jobs, kJobKind))),
                                   DatumGetInt32(job_value(*jobs, kJobVersion)), array_in(*jobs, kJobRequires),
                                   array_in(*jobs, kJobLimits));
    core::Event event = {core::EventKind::Moved, GetCurrentTimestamp()};
    if (job_has(*jobs, kJobGroupKey))
        event.group = group_number(view(queue), view(DatumGetTextPP(job_value(*jobs, kJobGroupKey))));
    OtherColumns others = {};
    others.set(kJobQueue, PointerGetDatum(queue))
        .set(kJobLane, Int64GetDatum(lane))
        .set_if(direction == Direction::Away, kJobDeadFrom, job_value(*jobs, kJobQueue))
        .set_if(find_queue(view(queue))->round_robin, kJobRoundRobinKey,
                Int64GetDatum(round_robin_key_of(before.concurrency_key)));
    return write_life(jobs, before, core::after_event(before.life, event), others);
}

void move_letters(const Datum *ids, int count, Direction direction) {
    change_locked_jobs(
        count, [&](int i) { return DatumGetInt64(ids[i]); },
        [&](JobsTable *jobs, int) { return move_letter(jobs, direction); });
}

}  // namespace

void move_to_dead_letters(const Datum *ids, int count) { move_letters(ids, count, Direction::Away); }

void return_dead_letters(const Datum *ids, int count) { move_letters(ids, count, Direction::Home); }

void forget_origin(int64 id) {
    OtherColumns others = {};
    others.clear(kJobDeadFrom);
    change_locked_jobs(
        1, [&](int) { return id; },
        [&](JobsTable *jobs, int) {
            const JobState job = state_of(*jobs);
            return write_life(jobs, job, job.life, others);
        });
}

}  // namespace jobq
