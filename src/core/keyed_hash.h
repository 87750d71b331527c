// SipHash-2-4 (J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012), which computes a 64-bit
// hash that is keyed with a 128-bit secret. Two inputs with the same hash cannot be constructed without the secret.
#pragma once

#include <cstdint>
#include <string_view>

namespace jobq::core {

// The kind of object that a hash identifies. The kind is hashed first, so that the hash of a group reveals nothing
// about the hash of a lane with the same names.
enum class Numbered : unsigned char { Lane = 1, Group, QueueLimit, KeyLimit, RoundRobinKey, KindLimit, NamedLimit };

struct HashKey {
    std::uint64_t low, high;  // bytes 0 to 7 and 8 to 15 of the secret, lowest byte first
};

class KeyedHash {
 public:
    KeyedHash(const HashKey &key, Numbered what) noexcept : KeyedHash(key) {
        add_byte(static_cast<unsigned char>(what));
    }

    explicit KeyedHash(const HashKey &key) noexcept
        : v0_(key.low ^ 0x736f6d6570736575),
          v1_(key.high ^ 0x646f72616e646f6d),
          v2_(key.low ^ 0x6c7967656e657261),
          v3_(key.high ^ 0x7465646279746573) {}

    // Adds the bytes of a number, lowest byte first, so that the hash does not depend on the byte order of the machine.
    void add_number(std::uint64_t number, int bytes) noexcept {
        for (int i = 0; i < bytes; i++) add_byte(static_cast<unsigned char>(number >> (8 * i)));
    }

    // Adds the length and the bytes of a string, so that ("ab", "c") and ("a", "bc") are different inputs.
    void add_part(std::string_view part) noexcept {
        add_number(part.size(), 4);
        add_bytes(part);
    }

    void add_bytes(std::string_view bytes) noexcept {
        for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
    }

    // Returns the hash of everything that has been added. Nothing may be added after this call.
    std::int64_t value() noexcept {
        compress(word_ | size_ << 56);
        v2_ ^= 0xff;
        for (int i = 0; i < 4; i++) round();
        return static_cast<std::int64_t>(v0_ ^ v1_ ^ v2_ ^ v3_);
    }

 private:
    void add_byte(unsigned char byte) noexcept {
        word_ |= static_cast<std::uint64_t>(byte) << (8 * (size_ % 8));
        if (++size_ % 8 != 0) return;
        compress(word_);
        word_ = 0;
    }

    void compress(std::uint64_t word) noexcept {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
    }

    static constexpr std::uint64_t rotate(std::uint64_t value, int bits) noexcept {
        return value << bits | value >> (64 - bits);
    }

    void round() noexcept {
        v0_ += v1_;
        v2_ += v3_;
        v1_ = rotate(v1_, 13) ^ v0_;
        v3_ = rotate(v3_, 16) ^ v2_;
        v0_ = rotate(v0_, 32);
        v2_ += v1_;
        v0_ += v3_;
        v1_ = rotate(v1_, 17) ^ v2_;
        v3_ = rotate(v3_, 21) ^ v0_;
        v2_ = rotate(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
    std::uint64_t word_ = 0;  // the last bytes, fewer than 8, that have not been compressed
    std::uint64_t size_ = 0;  // in bytes
};

}  // namespace jobq::core
