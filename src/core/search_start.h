// Determines the position in an index at which a search for rows begins. This class is meant for searches that are not
// urgent, such as a search for expired rows. A search that deletes the first rows of an index leaves dead index
// entries, which cannot be removed while an old snapshot exists, and every later search from the beginning would have
// to skip these entries. Therefore, a search begins at the first row that the previous search saw. Rows that were added
// before that position are found by an occasional search that begins at the start of the index. Such searches are so
// rare that their cost does not matter: the time between two of them is `rest` times the duration of one.
#pragma once

#include "core/span.h"

#include <cstdint>

namespace jobq::core {

class SearchStart {
 public:
    explicit constexpr SearchStart(int rest) noexcept : rest_(rest) {}
    // Begins a search and returns the position at which to begin. `remembers` is false for callers that always search
    // from the beginning.
    std::int64_t begin(bool remembers, Micros now) noexcept {
        whole_ = !remembers || now >= again_ || now < began_;
        began_ = now;
        return whole_ ? INT64_MIN : first_;
    }
    // Ends a search. `first` is the position of the first row that the search saw. The caller must read this position
    // before it deletes rows.
    void end(std::int64_t first, Micros now) noexcept {
        first_ = first;
        if (whole_) again_ = now + rest_ * (now > began_ ? now - began_ : 0);
    }

 private:
    int rest_;
    bool whole_ = true;
    std::int64_t first_ = INT64_MIN;
    Micros began_ = 0, again_ = 0;
};

}  // namespace jobq::core
