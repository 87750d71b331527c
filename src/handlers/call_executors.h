// These functions wake executors (the processes that run handlers) at the end of a transaction if jobs might have
// become claimable or slots of limits might have become free. main/jobq.cpp calls the functions.
#pragma once

namespace jobq {

void call_executors_for_claimable();
// Wakes executors after a rollback, because the limit slots that the transaction's claims had taken are free again.
void call_executors_for_slots_not_taken();
// Wakes all executors of this database after a prepared transaction has ended, because it is unknown which queues that
// transaction has changed. Only commit/at_commit.cpp calls this function.
void call_executors_for_anything();

}  // namespace jobq
