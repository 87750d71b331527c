// A connection to Redis by hiredis that does not wait, for redis_lists.cpp and redis_streams.cpp.

#pragma once

#include "client.h"

#include <hiredis/hiredis.h>

using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

std::string text_of(const redisReply *reply);

class RedisWire {
public:
    explicit RedisWire(const Options &options);

    int fd() const { return context_->fd; }
    void append(const std::vector<std::string> &words);
    void flush();
    void receive();
    // The next answer that has come, or null. An answer that is an error is thrown.
    Reply reply();
    // Sends and waits.
    Reply call(const std::vector<std::string> &words);

private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context_;
};

// Counts the answers to what was sent, and hands each to take() with its place.
class RedisConversation {
public:
    explicit RedisConversation(const Options &options) : wire(options) {}

    void append(const std::vector<std::string> &words) {
        wire.append(words);
        awaited_++;
    }
    void send() {
        place_ = 0;
        wire.flush();
    }
    // Whether all the answers have come.
    template <class Take>
    bool receive(Take take) {
        wire.receive();
        while (place_ < awaited_) {
            Reply reply = wire.reply();
            if (!reply) return false;
            take(place_++, reply.get());
        }
        awaited_ = 0;
        return true;
    }

    RedisWire wire;

private:
    int awaited_ = 0, place_ = 0;
};
