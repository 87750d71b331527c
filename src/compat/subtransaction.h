// Runs code in a subtransaction, so that an error does not abort the whole transaction. The background worker uses this
// to continue with other rows if a row cannot be changed.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "utils/resowner.h"
}

namespace jobq {

// The error of a failed attempt. The message is truncated to fit.
struct FailureText {
    char message[160];
    int sqlstate;
};

// Copies the current error into `failure` and rolls back the subtransaction. Raises the error again if it does not
// concern a single row: a cancellation, a shutdown, or a conflict that only a new transaction can resolve.
void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner);

// Rolls back the subtransaction and raises the current error again.
[[noreturn]] void raise_from_attempt(MemoryContext context, ResourceOwner owner);

// keep_if() and attempt() must not be inlined, because body() changes local variables of the caller, and local
// variables that change after a sigsetjmp() in the same function are undefined after a longjmp. `test/lint.sh setjmp`
// checks that no template with a PG_TRY() can be inlined.

// Runs body in a subtransaction and returns its result. Rolls back the subtransaction if body returns false. If body
// raises an error, rolls back the subtransaction and raises the error again.
template <typename Body>
pg_noinline bool keep_if(Body body) {
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
    { raise_from_attempt(context, owner); }
    PG_END_TRY();
    return kept;
}

// Runs body in a subtransaction. If body raises an error, rolls back the subtransaction, stores the error in `failure`,
// and returns false.
template <typename Body>
pg_noinline bool attempt(Body body, FailureText *failure) {
    MemoryContext context = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    volatile bool succeeded = true;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        body();
        ReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
    }
    PG_CATCH();
    {
        end_failed_attempt(failure, context, owner);
        succeeded = false;
    }
    PG_END_TRY();
    return succeeded;
}

// Calls change(first, n) for a whole batch in one subtransaction. If that fails, calls it for each item in its own
// subtransaction, so that an item that cannot be changed does not block the others. Calls done(i) for each changed
// item, and failed(i, failure) for each of the others.
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
