// See log_lines_policy.h.
#include "finish/log_lines_policy.h"

namespace jobq::core {

bool store_line(StoredLines *stored, std::size_t bytes) noexcept {
    const int length = static_cast<int>(bytes);
    if (stored->full || stored->lines >= kMaxLogLines || length > kMaxLogBytes - stored->bytes) {
        stored->full = true;
        return false;
    }
    stored->lines++;
    stored->bytes += length;
    return true;
}

}  // namespace jobq::core
