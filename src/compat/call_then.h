// Calls a function, and another function after it.
#pragma once

#include "compat/pg.h"

#include <type_traits>

namespace jobq {

// Calls body() and then after(), and returns the result of body(). After an error, after() is not called.
template <typename Body, typename After>
auto call_then(Body &body, After after) {
    if constexpr (std::is_void_v<decltype(body())>) {
        body();
        after();
    } else {
        auto result = body();
        after();
        return result;
    }
}

}  // namespace jobq
