// Supervises the executors, which are the processes that run handlers in a database: starts them, asks them to exit
// when their process slots are needed for executors of another role, and interrupts them when their job must stop. Only
// step.cpp, in the background worker of the database, may call this function.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The arguments of an executor, in addition to the number of its slot.
struct ExecutorArguments {
    uint32 generation;
    Oid database, role;
};

// Starts and stops executors as needed. Call it in a transaction, with the privileges of the extension's owner.
void supervise_executors(TimestampTz now);

}  // namespace jobq
