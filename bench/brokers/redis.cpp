#include "redis.h"

#include <poll.h>

#include <cerrno>

namespace {

[[noreturn]] void lost(const redisContext *context) {
    if (context->err == REDIS_ERR_EOF || context->err == REDIS_ERR_IO) throw Gone(context->errstr);
    throw std::runtime_error(context->errstr);
}

}  // namespace

std::string text_of(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_STRING) throw std::runtime_error("Redis: a string expected");
    return std::string(reply->str, reply->len);
}

RedisWire::RedisWire(const Options &options)
    : context_(redisConnectUnixNonBlock(options.text("socket").c_str()), redisFree) {
    if (!context_ || context_->err) throw std::runtime_error(context_ ? context_->errstr : "no memory");
}

void RedisWire::append(const std::vector<std::string> &words) {
    std::vector<const char *> texts;
    std::vector<size_t> lengths;
    for (const std::string &word : words) {
        texts.push_back(word.data());
        lengths.push_back(word.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(), lengths.data());
}

void RedisWire::flush() {
    for (int done = 0; !done;) {
        if (redisBufferWrite(context_.get(), &done) != REDIS_OK) lost(context_.get());
        if (!done) {
            pollfd wait{fd(), POLLIN | POLLOUT, 0};
            poll(&wait, 1, -1);
            if (wait.revents & POLLIN) receive();
        }
    }
}

void RedisWire::receive() {
    if (redisBufferRead(context_.get()) != REDIS_OK) lost(context_.get());
}

Reply RedisWire::reply() {
    void *reply = nullptr;
    if (redisGetReplyFromReader(context_.get(), &reply) != REDIS_OK) lost(context_.get());
    Reply owned(static_cast<redisReply *>(reply), freeReplyObject);
    if (owned && owned->type == REDIS_REPLY_ERROR) throw std::runtime_error(std::string("Redis: ") + owned->str);
    return owned;
}

Reply RedisWire::call(const std::vector<std::string> &words) {
    append(words);
    flush();
    for (;;) {
        if (Reply answer = reply()) return answer;
        pollfd wait{fd(), POLLIN, 0};
        poll(&wait, 1, -1);
        receive();
    }
}
