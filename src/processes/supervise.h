// A database's worker looks after the executors there: starts them, has those make room that others wait for, and ends
// what they do when their job is to stop. Who may call it: step.cpp.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What an executor is started with, beside the number of its slot.
struct ExecutorArguments {
    uint32 generation;
    Oid database, role;
};

// With the owner's rights, in a transaction.
void supervise_executors(TimestampTz now);

}  // namespace jobq
