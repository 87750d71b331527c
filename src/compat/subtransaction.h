// An attempt that may fail without ending the transaction: a subtransaction, and what went wrong in it.
// For duties that must go on behind a row that cannot be changed.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "utils/resowner.h"
}

namespace jobq {

// The message of a failed attempt, cut to fit.
struct FailureText {
    char message[160];
    int sqlstate;
};

// Copies the error being handled into `failure`, and rolls the subtransaction back. Raises the error again when it is
// none of the row's: a cancellation, a shutdown, or a conflict that only another transaction can solve.
void end_failed_attempt(FailureText *failure, MemoryContext context, ResourceOwner owner);

// Rolls the subtransaction back and raises the error being handled again.
[[noreturn]] void raise_from_attempt(MemoryContext context, ResourceOwner owner);

// keep_if() and attempt() must not be inlined. The body changes locals of the caller, and C leaves the changed locals
// of a function undefined when a longjmp returns to a sigsetjmp in that function. `test/lint.sh setjmp` checks that no
// template with a PG_TRY() can be inlined.

// Runs body in a subtransaction, which is rolled back when body answers false. Returns what body answers; an error is
// raised again.
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

// Runs body in a subtransaction; false when it failed.
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

// Does change(first, n) to a batch in one subtransaction or, where that fails, to each by itself in one of its own:
// what cannot be changed holds up no other. Calls done(i) of each that was changed, and failed(i, failure) of each that
// was not.
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
