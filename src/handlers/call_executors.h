// At the end of a transaction: executors are called for what it has made claimable, and for room under limits. See
// main/jobq.cpp.
#pragma once

namespace jobq {

void call_executors_for_claimable();
// Its claims are rolled back, the slots of limits that they had taken are free.
void call_executors_for_slots_not_taken();
// For wait/at_commit.cpp: a prepared transaction of this database has ended, nobody knows which queues it was about.
void call_executors_for_anything();

}  // namespace jobq
