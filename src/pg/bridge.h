// The bridge between C++ that may throw (src/core) and the server, whose errors are longjmps.
//
// An exception must never reach a C frame, and ereport must never be called inside a catch block: the exception
// object would leak. So core_call() catches everything, lets the catch block end, and only then raises.
// Who may call it: every shell function that calls core code which can throw.
#pragma once

#include "pg/pg.h"

#include <exception>
#include <new>

namespace jobq {

enum class CoreFailure { None, OutOfMemory, Exception };

// Raises 53200 or XX000 with `message`. Never returns.
[[noreturn]] void raise_core_failure(CoreFailure failure, const char *message);

template <typename Body>
void core_call(Body body) {
    CoreFailure failure = CoreFailure::None;
    char message[256] = "";
    try {
        body();
    } catch (const std::bad_alloc &) {
        failure = CoreFailure::OutOfMemory;
    } catch (const std::exception &caught) {
        failure = CoreFailure::Exception;
        strlcpy(message, caught.what(), sizeof(message));
    } catch (...) {
        failure = CoreFailure::Exception;
    }
    if (failure != CoreFailure::None) raise_core_failure(failure, message);
}

}  // namespace jobq
