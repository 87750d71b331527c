// A non-blocking connection to Redis through hiredis, for redis_lists.cpp and redis_streams.cpp.

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
    // Returns the next answer that has arrived, or null. Throws an answer that is an error.
    Reply reply();
    // Sends a command and waits for its answer.
    Reply call(const std::vector<std::string> &words);

private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context_;
};

// Counts the answers to the commands and passes each to take() with its position.
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
    // Returns whether all answers have arrived.
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
