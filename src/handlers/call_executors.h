// Wakes executors (the processes that run handlers) at the end of a transaction, because jobs have become claimable or
// slots of limits have become free. main/jobq.cpp calls these functions.
#pragma once

namespace jobq {

void call_executors_for_claimable();
// Wakes executors after a rollback, which frees the slots of limits that the transaction's claims had taken.
void call_executors_for_slots_not_taken();
// Wakes all executors of this database after a prepared transaction has ended, because the queues that it has changed
// are unknown. Only commit/at_commit.cpp calls it.
void call_executors_for_anything();

}  // namespace jobq
