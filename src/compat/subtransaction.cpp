// See subtransaction.h. The steps of a subtransaction have the same order as in exec_stmt_block() of plpgsql.
#include "compat/pg.h"

#include "compat/subtransaction.h"

namespace jobq {

namespace {

// Returns whether the error would also occur for other rows. In that case, the caller must rethrow the error instead of
// skipping the row. Returns false if a queue is full, because this error concerns only rows of that queue.
bool concerns_everybody(int sqlstate) {
    return sqlstate == ERRCODE_QUERY_CANCELED || ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_OPERATOR_INTERVENTION ||
           ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TRANSACTION_ROLLBACK ||
           (ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_INSUFFICIENT_RESOURCES &&
            sqlstate != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
}

}  // namespace

void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner) {
    MemoryContextSwitchTo(context);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    if (failure == nullptr || concerns_everybody(error->sqlerrcode)) ReThrowError(error);
    const char *message = error->message != nullptr ? error->message : "unknown error";
    const int length =
        pg_mbcliplen(message, static_cast<int>(strlen(message)), static_cast<int>(sizeof(failure->message)) - 1);
    memcpy(failure->message, message, length);
    failure->message[length] = '\0';
    failure->sqlstate = error->sqlerrcode;
    FreeErrorData(error);
}

}  // namespace jobq
