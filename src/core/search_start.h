// The position where a search begins for rows that no session waits for, such as expired rows. A search that deletes
// the first rows of an index must pass the entries of all rows that it has deleted before, as long as an old snapshot
// keeps them. Therefore a search begins at the first row that the last search has seen. Rows that have been added
// before that place are found by a search from the very beginning, which is so rare that it takes only a small part of
// the time.
#pragma once

#include "core/span.h"

#include <cstdint>

namespace jobq::core {

class SearchStart {
 public:
    // Begins a search and returns the lowest position to look at. `remembers` is false for callers that always search
    // from the beginning.
    std::int64_t begin(bool remembers, Micros now) noexcept {
        whole_ = !remembers || now >= again_ || now < began_;
        began_ = now;
        return whole_ ? INT64_MIN : first_;
    }
    // Ends a search. `first` is the position of the first row, which the caller must have read before it deleted
    // anything.
    void end(std::int64_t first, Micros now) noexcept {
        first_ = first;
        if (whole_) again_ = now + kRest * (now > began_ ? now - began_ : 0);
    }

 private:
    static constexpr int kRest = 500;
    bool whole_ = true;
    std::int64_t first_ = INT64_MIN;
    Micros began_ = 0, again_ = 0;
};

}  // namespace jobq::core
