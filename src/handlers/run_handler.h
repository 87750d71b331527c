// Runs handlers in the session of an executor: claims jobs, calls handlers, and ends attempts. Only executor.cpp calls
// serve_handlers().
#pragma once

#include "compat/pg.h"

namespace jobq {

struct Served {
    int jobs;    // number of jobs that ran
    bool leave;  // the session must end
};
// Claims a job for the next handler of the session's role and runs it. Then runs further jobs of the same handler until
// its turn ends or may_go_on() returns false.
Served serve_handlers(bool (*may_go_on)());

}  // namespace jobq
