// Where a search for rows that no session waits for begins, such as rows that have expired. A search that deletes the
// first rows of an index passes the entries of all rows that it has deleted before, as long as an old snapshot keeps
// them. So it begins at the first row that the last search has seen. Rows that have come to lower places since are
// found by a search from the very beginning. That one rests so long that it takes no more than a small part of the
// time.
#pragma once

#include "base/span.h"

#include <cstdint>

namespace jobq::core {

class SearchStart {
 public:
    // Begins a search, and returns the lowest place to look at. `remembers`: false for callers that search from the
    // beginning always.
    std::int64_t begin(bool remembers, Micros now) noexcept {
        whole_ = !remembers || now >= again_ || now < began_;
        began_ = now;
        return whole_ ? INT64_MIN : first_;
    }
    // Ends it: `first` is the place of the first row, which had to be seen before anything was deleted.
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
