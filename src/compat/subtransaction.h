// Runs code in a subtransaction, so that an error does not abort the whole transaction. The background worker uses
// subtransactions to continue with other rows if a row cannot be changed.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "utils/resowner.h"
}

namespace jobq {

// The error of a subtransaction that failed. The message is truncated to fit.
struct FailureText {
    char message[160];
    int sqlstate;
};

// Copies the current error into `failure` and rolls back the subtransaction. Raises the error again if `failure` is
// nullptr, or if the error concerns more than a single row, for example if it is a cancellation, a shutdown, or a
// conflict that only a new transaction can resolve.
void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner);

// keep_if() must not be inlined into the caller, because body() changes local variables of the caller. If a function
// calls sigsetjmp() and then changes its local variables, their values are undefined after a longjmp().
// `test/lint.sh setjmp` checks that no template with a PG_TRY() can be inlined.

// Runs body() in a subtransaction and returns its result. Rolls back the subtransaction if body() returns false. If
// body() raises an error, rolls back the subtransaction. Then raises the error again, or, if `failure` is given, stores
// the error there and returns false.
template <typename Body>
pg_noinline bool keep_if(Body body, FailureText *failure = nullptr) {
    MemoryContext context = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    volatile bool kept = false;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        kept = body();
        if (kept)
            ReleaseCurrentSubTransaction();
        else
            RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
    }
    PG_CATCH();
    {
        end_failed_attempt(failure, context, owner);
        kept = false;
    }
    PG_END_TRY();
    return kept;
}

// Runs body() in a subtransaction. If body() raises an error, rolls back the subtransaction, stores the error in
// `failure`, and returns false.
template <typename Body>
bool attempt(Body body, FailureText *failure) {
    return keep_if(
        [&] {
            body();
            return true;
        },
        failure);
}

// Calls change(first, n) for a whole batch in one subtransaction. If this call fails, calls change() for each item in a
// separate subtransaction, so that an item that cannot be changed does not block the other items. Then calls done(i)
// for each item that was changed, and failed(i, failure) for each item that was not changed.
template <typename Change, typename Done, typename Failed>
void change_all_or_each(int count, Change change, Done done, Failed failed) {
    FailureText failure;
    if (count == 0) return;
    const bool together = attempt([&] { change(0, count); }, &failure);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        if (together || (count > 1 && attempt([&] { change(i, 1); }, &failure)))
            done(i);
        else
            failed(i, failure);
    }
}

}  // namespace jobq
