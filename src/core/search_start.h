// The position in an index where a search for rows that no session waits for, such as expired rows, begins. A search
// that deletes the first rows of an index leaves entries that an old snapshot may keep, and every later search from the
// beginning would pass them. Therefore a search begins at the first row that the previous search saw. Rows that were
// added before that position are found by an occasional search from the beginning, which is rare enough to cost little.
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
