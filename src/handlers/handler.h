// Handlers: rows of jobq.handler_settings, and what they come to now: whether function, role and rights are there.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"
#include "lanes/lane_policy.h"

#include <string_view>

namespace jobq {

// name=value, in force while the handler runs.
struct HandlerSetting {
    const char *name, *value;
};

struct Handler {
    std::string_view queue, kind;
    const char *function;  // schema and name, as SQL writes them
    const char *run_as;
    int max_executors;
    core::WorkerFilter filter;
    HandlerSetting *settings;
    int setting_count;
    const char *bad_setting;  // what is wrong with one of them; nullptr: nothing
    uint64 hash;              // core::handler_hash()
};

struct Handlers {
    Handler *items;
    int count;
};

// Those that are run as the role, nullptr: all, in their order. In the current memory context. With the owner's rights.
Handlers read_handlers(const char *run_as);

// Whether there are any of a queue; removes them. Inside with_spi(), with the owner's rights.
bool lock_handlers_of(const text *queue);
int64 remove_handlers_of(const text *queue);

// Reads the settings of a handler: name=value of each. What is no such pair, or what an executor settles itself, is a
// bad one.
void read_settings_of(Handler *handler, const Elements &texts);
constexpr const char *kSettingHint =
    "Write name=value, for example 'work_mem=64MB'. Handlers run in READ COMMITTED transactions, as the role "
    "\"run_as\".";

// What a handler comes to.
struct HandlerTarget {
    Oid function, role;
    bool is_procedure, returns_json;
};
struct Problem {
    int sqlstate;  // 0: there is none
    const char *message, *hint;
};
// Whether the handler can run: it looks nothing up that a syscache has not. Inside a transaction.
Problem resolve_handler(const Handler &handler, HandlerTarget *target);

}  // namespace jobq
