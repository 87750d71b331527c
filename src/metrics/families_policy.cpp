// See families_policy.h.
#include "metrics/families_policy.h"

namespace jobq::core {

const char *type_name(FamilyType type) noexcept {
    switch (type) {
        case FamilyType::Gauge:
            return "gauge";
        case FamilyType::Counter:
            return "counter";
        case FamilyType::Histogram:
            return "histogram";
    }
    return "untyped";
}

}  // namespace jobq::core
