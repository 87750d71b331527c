// How the messages of failed tests show a claim key.
#pragma once

#include "core/claim_key.h"

#include <ostream>

namespace jobq::core {

inline void PrintTo(const ClaimKey &key, std::ostream *out) {
    *out << "(" << key.priority << ", " << key.run_at << ", " << key.id << ")";
}

}  // namespace jobq::core
