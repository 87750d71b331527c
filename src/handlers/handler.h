// Reads handlers, which are the rows of jobq.handler_settings, and checks whether their functions, roles, and rights
// exist.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"
#include "core/lane.h"

#include <string_view>

namespace jobq {

// A setting (name=value) that is in effect while the handler runs.
struct HandlerSetting {
    const char *name, *value;
};

struct Handler {
    std::string_view queue, kind;
    const char *function;  // schema and name, quoted as in SQL
    const char *run_as;
    int max_executors;
    core::WorkerFilter filter;
    HandlerSetting *settings;
    int setting_count;
    const char *bad_setting;  // the error in one of the settings; nullptr if all are valid
    uint64 hash;              // core::handler_hash()
};

struct Handlers {
    Handler *items;
    int count;
};

// Returns the handlers that run as the role, or all handlers if run_as is nullptr. The result is ordered and is
// allocated in the current memory context. Reads with the owner's rights.
Handlers read_handlers(const char *run_as);

// The first function locks the handlers of a queue and returns whether there are any; the second one removes them. Call
// them inside with_spi(), with the owner's rights.
bool lock_handlers_of(const text *queue);
int64 remove_handlers_of(const text *queue);

// Reads the settings of a handler, each as name=value. Sets bad_setting if a text does not have this form or names a
// setting that the executor controls.
void read_settings_of(Handler *handler, const Elements &texts);
constexpr const char *kSettingHint =
    "Write name=value, for example 'work_mem=64MB'. Handlers run in READ COMMITTED transactions, as the role "
    "\"run_as\".";

// The objects that the names in a handler refer to.
struct HandlerTarget {
    Oid function, role;
    bool is_procedure, returns_json;
};
struct Problem {
    int sqlstate;  // 0 if there is no problem
    const char *message, *hint;
};
// Returns why the handler cannot run, or a Problem without an error if it can. Looks up everything in the syscaches.
// Call it inside a transaction.
Problem resolve_handler(const Handler &handler, HandlerTarget *target);

}  // namespace jobq
