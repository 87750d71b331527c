// A fast 64-bit hash that is the same on every machine: FNV-1a 64 (Fowler, Noll, Vo) over length-prefixed parts,
// finished with the 64-bit mixer of MurmurHash3 (Appleby), because the low bits of FNV alone are weak for short keys. A
// user can construct inputs that collide, so keyed_hash.h is used instead for numbers whose collision would affect jobs
// of other queues.
#pragma once

#include <cstdint>
#include <string_view>

namespace jobq::core {

// Mixes the bits of a hash with fmix64, the finalizer of MurmurHash3.
constexpr std::uint64_t mix64(std::uint64_t hash) noexcept {
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdU;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53U;
    return hash ^ (hash >> 33);
}

class StableHash {
 public:
    // Adds the bytes of a number, lowest byte first, so that the hash does not depend on the byte order of the machine.
    void add_number(std::uint64_t number, int bytes) noexcept {
        for (int i = 0; i < bytes; i++) add_byte(static_cast<unsigned char>(number >> (8 * i)));
    }

    // Adds the length and the bytes of a string, so that ("ab", "c") and ("a", "bc") are different inputs.
    void add_part(std::string_view part) noexcept {
        add_number(part.size(), 8);
        add_bytes(part);
    }

    void add_bytes(std::string_view bytes) noexcept {
        for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
    }

    std::int64_t value() const noexcept { return static_cast<std::int64_t>(mix64(hash_)); }

 private:
    void add_byte(unsigned char byte) noexcept {
        hash_ ^= byte;
        hash_ *= 0x00000100000001b3;
    }

    std::uint64_t hash_ = 0xcbf29ce484222325;
};

// These functions return the hash of one name or of two names.
inline std::int64_t stable_hash(std::string_view name) noexcept {
    StableHash hash;
    hash.add_part(name);
    return hash.value();
}
inline std::int64_t stable_hash(std::string_view first, std::string_view second) noexcept {
    StableHash hash;
    hash.add_part(first);
    hash.add_part(second);
    return hash.value();
}

}  // namespace jobq::core
