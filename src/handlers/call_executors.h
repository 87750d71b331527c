// Wakes executors at the end of a transaction: for jobs that became claimable, and for slots of limits that became
// free. main/jobq.cpp calls these functions.
#pragma once

namespace jobq {

void call_executors_for_claimable();
// Wakes executors after a rollback, which frees the slots of limits that the transaction's claims had taken.
void call_executors_for_slots_not_taken();
// Wakes executors after a prepared transaction of this database has ended, because its queues are unknown. Only
// commit/at_commit.cpp calls it.
void call_executors_for_anything();

}  // namespace jobq
