// Supervises the executors, which are the processes that run handlers in a database: starts them, asks them to exit
// when executors of another role need their process slots, and interrupts them when their job must stop. Only step.cpp
// may call this, in the worker of the database.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The arguments of an executor, in addition to the number of its slot.
struct ExecutorArguments {
    uint32 generation;
    Oid database, role;
};

// Starts and stops executors as needed. Call it in a transaction, with the rights of the extension's owner.
void supervise_executors(TimestampTz now);

}  // namespace jobq
