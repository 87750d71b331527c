// See subtransaction.h. The steps have the same order as in plpgsql's exec_stmt_block.
#include "compat/pg.h"

#include "compat/subtransaction.h"

namespace jobq {

namespace {

// Returns whether the error would also occur for other rows, so that it must be raised again. An error about a full
// queue concerns only that queue.
bool concerns_everybody(int sqlstate) {
    return sqlstate == ERRCODE_QUERY_CANCELED || ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_OPERATOR_INTERVENTION ||
           ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TRANSACTION_ROLLBACK ||
           (ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_INSUFFICIENT_RESOURCES &&
            sqlstate != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
}

ErrorData *roll_back_failed(MemoryContext context, ResourceOwner owner) {
    MemoryContextSwitchTo(context);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return error;
}

}  // namespace

void raise_from_attempt(MemoryContext context, ResourceOwner owner) {
    ReThrowError(roll_back_failed(context, owner));
    pg_unreachable();
}

void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner) {
    ErrorData *error = roll_back_failed(context, owner);
    if (concerns_everybody(error->sqlerrcode)) ReThrowError(error);
    const char *message = error->message != nullptr ? error->message : "unknown error";
    const int length =
        pg_mbcliplen(message, static_cast<int>(strlen(message)), static_cast<int>(sizeof(failure->message)) - 1);
    memcpy(failure->message, message, length);
    failure->message[length] = '\0';
    failure->sqlstate = error->sqlerrcode;
    FreeErrorData(error);
}

}  // namespace jobq
