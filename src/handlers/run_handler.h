// Runs handlers in the session of an executor: claims, calls, ends. Who may call it: bgw/executor.cpp.
#pragma once

#include "compat/pg.h"

namespace jobq {

struct Served {
    int jobs;    // that were run
    bool leave;  // the session is of no use any more
};
// Claims a job for the handlers of the session's role, whose turn it is, and runs it, and as many behind it as may come
// in a row, while may_go_on().
Served serve_handlers(bool (*may_go_on)());

}  // namespace jobq
