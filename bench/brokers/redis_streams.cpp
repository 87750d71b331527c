// Redis streams: XREADGROUP and XACK, and XDEL with delete=1. Without XDEL, the stream keeps acknowledged jobs.

#include "redis.h"

namespace {

constexpr char kStream[] = "queue", kGroup[] = "workers";

// The entries of a stream, each of them [id, [field, value]].
void take_entries(const redisReply *entries, std::vector<Job> &jobs) {
    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        if (entry->elements != 2 || entry->element[1]->elements != 2) throw std::runtime_error("Redis: an entry expected");
        const redisReply *value = entry->element[1]->element[1];
        jobs.push_back({number_of(value->str, value->len), text_of(entry->element[0])});
    }
}

// The answer of XREADGROUP: nil, or [[stream, entries]].
void take_read(const redisReply *reply, std::vector<Job> &jobs) {
    if (reply->type != REDIS_REPLY_NIL) take_entries(reply->element[0]->element[1], jobs);
}

class StreamConsumer final : public Consumer {
public:
    StreamConsumer(const Options &options, Record &record, int number)
        : Consumer(options, record),
          redis_(options),
          name_("worker" + std::to_string(number)),
          delete_(options.number("delete", 0) != 0) {}
    int fd() const override { return redis_.wire.fd(); }

    void readable() override {
        bool complete = redis_.receive([this](int place, const redisReply *reply) {
            if (place < acknowledging_) {
                if (reply->type != REDIS_REPLY_INTEGER || static_cast<size_t>(reply->integer) != count_) {
                    throw std::runtime_error("XACK or XDEL found less than there was");
                }
            } else {
                take_read(reply, claimed_);
            }
        });
        if (complete) answered(std::exchange(claimed_, {}));
    }

protected:
    void request(const std::vector<Job> &acknowledge, int claim) override {
        acknowledging_ = 0;
        count_ = acknowledge.size();
        if (count_ > 0) {
            say({"XACK", kStream, kGroup}, acknowledge);
            if (delete_) say({"XDEL", kStream}, acknowledge);
        }
        if (claim > 0) {
            redis_.append({"XREADGROUP", "GROUP", kGroup, name_, "COUNT", std::to_string(claim), "STREAMS", kStream, ">"});
        }
        redis_.send();
    }

private:
    void say(std::vector<std::string> words, const std::vector<Job> &jobs) {
        for (const Job &job : jobs) words.push_back(job.token);
        redis_.append(words);
        acknowledging_++;
    }

    RedisConversation redis_;
    const std::string name_;
    const bool delete_;
    int acknowledging_ = 0;
    size_t count_ = 0;
    std::vector<Job> claimed_;
};

class StreamProducer final : public Producer {
public:
    StreamProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), redis_(options) {}
    int fd() const override { return redis_.wire.fd(); }

    void readable() override {
        if (redis_.receive([](int, const redisReply *) {})) answered();
    }

protected:
    void request(const std::vector<uint32_t> &numbers) override {
        for (uint32_t number : numbers) redis_.append({"XADD", kStream, "*", "job", payload(number)});
        redis_.send();
    }

private:
    RedisConversation redis_;
};

class RedisStreams final : public Broker {
public:
    explicit RedisStreams(const Options &options) : options_(options) {}

    void reset() override {
        RedisWire redis(options_);
        redis.call({"FLUSHALL"});
        redis.call({"XGROUP", "CREATE", kStream, kGroup, "0", "MKSTREAM"});
    }
    std::unique_ptr<Client> consumer(Record &record, int number) override {
        return std::make_unique<StreamConsumer>(options_, record, number);
    }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<StreamProducer>(options_, record, first, last, step);
    }

    // Jobs that were delivered but not acknowledged, then jobs that were not delivered.
    std::vector<uint32_t> left() override {
        RedisWire redis(options_);
        std::vector<Job> jobs;
        std::string from = "0-0";
        do {
            Reply claimed = redis.call({"XAUTOCLAIM", kStream, kGroup, "rescue", "0", from, "COUNT", "1000"});
            take_entries(claimed->element[1], jobs);
            from = text_of(claimed->element[0]);
        } while (from != "0-0");
        for (size_t before = jobs.size() + 1; before != jobs.size();) {
            before = jobs.size();
            Reply read = redis.call({"XREADGROUP", "GROUP", kGroup, "rescue", "COUNT", "1000", "STREAMS", kStream, ">"});
            take_read(read.get(), jobs);
        }
        std::vector<uint32_t> numbers;
        for (const Job &job : jobs) numbers.push_back(job.number);
        return numbers;
    }

private:
    const Options options_;
};

}  // namespace

std::unique_ptr<Broker> redis_streams(const Options &options) { return std::make_unique<RedisStreams>(options); }
