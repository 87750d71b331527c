// Installs functions that are called instead of utility statements (ProcessUtility_hook). Such a function inspects the
// statement and runs it. Only _PG_init may install one, while the library is preloaded.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "tcop/utility.h"
}

namespace jobq {

// A utility statement that is about to run, and the arguments that the server passes with it. run() may free
// its memory, so read it before you call run().
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
    // Runs the statement. Around() must call this exactly once.
    void run() const { next(planned, query, read_only_tree, context, params, environment, dest, completion); }
};

// Installs Around, which is called instead of each utility statement.
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
