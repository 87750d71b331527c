// What a prepared transaction published was remembered by the session that prepared it, and is gone. So whoever commits
// it tells everybody of the database to look for themselves. See prepared.h.
#include "pg/pg.h"

#include "shared/publish.h"
#include "workers/prepared.h"

extern "C" {
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
}

namespace jobq {

namespace {

ProcessUtility_hook_type previous_hook = nullptr;

bool commits_prepared(Node *statement) {
    return IsA(statement, TransactionStmt) &&
           reinterpret_cast<TransactionStmt *>(statement)->kind == TRANS_STMT_COMMIT_PREPARED;
}

void on_utility(PlannedStmt *planned, const char *query, bool read_only_tree, ProcessUtilityContext context,
                ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion) {
    // Asked first: afterwards the statement's memory may be gone.
    const bool prepared = commits_prepared(planned->utilityStmt);
    const auto next = previous_hook != nullptr ? previous_hook : standard_ProcessUtility;
    next(planned, query, read_only_tree, context, params, environment, dest, completion);
    // Here the jobs are visible, although the command's own transaction has not ended.
    if (prepared) publish_ready_anywhere();
}

}  // namespace

void install_prepared_hook() {
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
}

}  // namespace jobq
