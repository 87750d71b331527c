// Installs functions that the server calls to run a utility statement (ProcessUtility_hook). Such a function inspects
// the statement and then lets the server run it. Only _PG_init may install such functions, and only while the library
// is being preloaded.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "tcop/utility.h"
}

namespace jobq {

// A utility statement that is about to run, and the arguments that the server passes with it. run() can free the memory
// of the statement, so read the statement before you call run().
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
    // Runs the statement. Around() must call run() exactly once.
    void run() const { next(planned, query, read_only_tree, context, params, environment, dest, completion); }
};

// Installs Around(), which the server then calls to run each utility statement.
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
