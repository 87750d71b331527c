// The places that a job can be in, for the tests of its life.
#pragma once

#include "core/life.h"
#include "core/queue_settings.h"

#include <string>

namespace jobq::core {

constexpr Micros kNow = 1000 * kSecond;
constexpr std::int64_t kLease = 77, kGroup = 5;

// The places of a job: its status, for a blocked job whether it is in the line of its group or awaits something, and
// for a failed job whether it halts its group.
enum Place { kScheduled, kBlocked, kInLine, kAwaiting, kPending, kRunning, kDone, kFailed, kCancelled, kHalting };
constexpr struct {
    JobStatus status;
    char letter;  // in kTable of life_test.cpp
} kPlaceRows[] = {{JobStatus::Scheduled, 'S'}, {JobStatus::Blocked, 'B'}, {JobStatus::Blocked, 'B'},
                  {JobStatus::Blocked, 'B'},   {JobStatus::Pending, 'P'}, {JobStatus::Processing, 'R'},
                  {JobStatus::Completed, 'C'}, {JobStatus::Failed, 'F'},  {JobStatus::Cancelled, 'X'},
                  {JobStatus::Failed, 'F'}};
constexpr int kPlaces = static_cast<int>(std::size(kPlaceRows));

// A job as jobq itself leaves it in this place.
inline Life job_in(Place place) {
    Life life = {};
    life.status = kPlaceRows[place].status;
    life.max_attempts = 3;
    life.run_at = place == kScheduled ? kNow + kHour : kNow - kMinute;
    life.has_key = true;
    life.holds_key = !is_finished(life.status);
    life.due = place == kScheduled || place == kAwaiting;
    life.ready = place == kPending;
    if (is_waiting(life.status)) life.expires_at = kNow + 3 * kHour;
    if (place == kInLine) life.group = life.group_waiting = kGroup;
    if (place == kHalting) life.group = life.group_active = kGroup;
    if (place == kAwaiting) {
        life.steps = 1;
        life.must_end_at = life.run_at = kNow + kHour;
    }
    if (place == kRunning) {
        life.attempts = 1;
        life.lease = kLease;
        life.started_at = life.last_heartbeat = kNow - kSecond;
        life.rescue_indexed = true;
        life.queue_slot = 3;
        life.must_end_at = kNow + kHour;
    }
    if (is_finished(life.status)) life.finished_at = kNow - kSecond;
    life.has_result = place == kDone;
    return life;
}

inline Event event_of(EventKind kind) {
    Event event = {kind, kNow};
    event.run_at = kNow + 2 * kHour;
    event.delay = kind == EventKind::Released ? 0 : kMinute;
    event.wants_retry = true;
    event.max_lost = 3;
    event.lease = kLease + 1;
    event.timeout = kDefaultSettings.heartbeat_timeout;
    event.rescue_indexed = true;
    event.group = kGroup + 1;
    return event;
}

// Properties that every job must have, whatever has happened to it.
inline std::string broken_law(const Life &life) {
    const bool runs = life.status == JobStatus::Processing, finished = is_finished(life.status);
    if (life.ready != (life.status == JobStatus::Pending)) return "ready";
    if (life.due != (life.status == JobStatus::Scheduled || (awaits(life) && life.must_end_at != kForever)))
        return "due";
    if (life.lease.has_value() && !runs) return "lease";
    if (life.rescue_indexed && !runs) return "rescue_indexed";
    if (life.must_end_at && !runs && !awaits(life)) return "must_end_at";
    if ((life.queue_slot || life.key_slot || life.kind_slot || life.limit_slot1 || life.limit_slot2) && !runs)
        return "slots";
    if (life.finished_at.has_value() != finished) return "finished_at";
    if (finished && life.holds_key) return "holds_key";
    if (life.has_result && life.status != JobStatus::Completed) return "has_result";
    if (life.cancel_requested_at && !runs && !finished) return "cancel_requested_at";
    if (life.expires_at && !is_waiting(life.status)) return "expires_at";
    if (life.group_waiting && life.status != JobStatus::Blocked) return "group_waiting";
    if (life.group_waiting && life.group_active) return "places";
    if (life.group_active && life.status == JobStatus::Blocked && !awaits(life)) return "group_active";
    if (life.group_active && finished && life.status != JobStatus::Failed) return "finished head";
    return "";
}

}  // namespace jobq::core
