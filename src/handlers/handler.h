// Reads handlers, which are the rows of jobq.handler_settings, and checks whether their functions and roles exist and
// whether the roles have the necessary privileges.
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
    const char *bad_setting;  // the error in one of the settings, or nullptr if all settings are valid
    uint64 hash;              // core::handler_hash()
};

struct Handlers {
    Handler *items;
    int count;
};

// Returns the handlers that run as the role, or all handlers if run_as is nullptr. The result is sorted and allocated
// in the current memory context. Reads the table with the privileges of the extension's owner.
Handlers read_handlers(const char *run_as);

// lock_handlers_of() locks the handlers of a queue and returns whether the queue has any. remove_handlers_of() removes
// them. Call the functions inside with_spi(), with the privileges of the owner.
bool lock_handlers_of(const text *queue);
int64 remove_handlers_of(const text *queue);

// Reads the settings of a handler, which are texts of the form name=value. Sets bad_setting if a text does not have
// this form or names a setting that the executor controls.
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
// Returns the problem that prevents the handler from running, or a Problem without an error if it can run. Looks up
// everything in the system caches. Call it inside a transaction.
Problem resolve_handler(const Handler &handler, HandlerTarget *target);

}  // namespace jobq
