// Around utility statements: each user of ProcessUtility_hook writes one function, which looks at the statement and
// lets it run. Who may install one: _PG_init, while preloading.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "tcop/utility.h"
}

namespace jobq {

// A statement that is about to run, and what the server hands on with it. After run() its memory may be gone: ask
// before.
struct UtilityCall {
    ProcessUtility_hook_type next;
    PlannedStmt *planned;
    const char *query;
    bool read_only_tree;
    ProcessUtilityContext context;
    ParamListInfo params;
    QueryEnvironment *environment;
    DestReceiver *dest;
    QueryCompletion *completion;

    Node *statement() const { return planned->utilityStmt; }
    // To be called once.
    void run() const { next(planned, query, read_only_tree, context, params, environment, dest, completion); }
};

// Calls Around(call) instead of each utility statement.
template <void (*Around)(const UtilityCall &)>
void go_around_utility() {
    static ProcessUtility_hook_type previous;
    previous = ProcessUtility_hook != nullptr ? ProcessUtility_hook : standard_ProcessUtility;
    ProcessUtility_hook = [](PlannedStmt *planned, const char *query, bool read_only_tree,
                             ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
                             DestReceiver *dest, QueryCompletion *completion) {
        Around({previous, planned, query, read_only_tree, context, params, environment, dest, completion});
    };
}

}  // namespace jobq
