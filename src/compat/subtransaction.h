// Runs code in a subtransaction, so that a failure does not end the transaction. Background duties use this to continue
// after a row that cannot be changed.
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

// Copies the current error into `failure` and rolls back the subtransaction. Raises the error again if it is not
// specific to the row: a cancellation, a shutdown, or a conflict that only another transaction can resolve.
void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner);

// Rolls back the subtransaction and raises the current error again.
[[noreturn]] void raise_from_attempt(MemoryContext context, ResourceOwner owner);

// keep_if() and attempt() must not be inlined. The body changes locals of the caller, and C leaves the changed locals
// of a function undefined when a longjmp returns to a sigsetjmp in that function. `test/lint.sh setjmp` checks that no
// template with a PG_TRY() can be inlined.

// Runs body in a subtransaction and returns its result. Rolls back the subtransaction if body returns false. Raises
// errors again.
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

// Runs body in a subtransaction. Returns false if it failed.
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
