// Redis lists as a reliable queue: LMOVE moves a job to a list of the worker, and LREM acknowledges it. A batch is several
// commands in one write, because no list command moves more than one job.

#include "redis.h"

namespace {

constexpr char kQueue[] = "queue", kTaken[] = "taken:";

class ListConsumer final : public Consumer {
public:
    ListConsumer(const Options &options, Record &record, int number)
        : Consumer(options, record), redis_(options), taken_(kTaken + std::to_string(number)) {}
    int fd() const override { return redis_.wire.fd(); }

    void readable() override {
        bool complete = redis_.receive([this](int place, const redisReply *reply) {
            if (place < acknowledging_) {
                if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) throw std::runtime_error("LREM found nothing");
            } else if (reply->type != REDIS_REPLY_NIL) {
                std::string job = text_of(reply);
                uint32_t number = number_of(job.data(), job.size());
                claimed_.push_back({number, std::move(job)});
            }
        });
        if (complete) answered(std::exchange(claimed_, {}));
    }

protected:
    void request(const std::vector<Job> &acknowledge, int claim) override {
        acknowledging_ = static_cast<int>(acknowledge.size());
        // Claimed jobs are pushed on the left, so the oldest is on the right, where a search with count -1 begins.
        for (const Job &job : acknowledge) redis_.append({"LREM", taken_, "-1", job.token});
        for (int i = 0; i < claim; i++) redis_.append({"LMOVE", kQueue, taken_, "RIGHT", "LEFT"});
        redis_.send();
    }

private:
    RedisConversation redis_;
    const std::string taken_;
    int acknowledging_ = 0;
    std::vector<Job> claimed_;
};

class ListProducer final : public Producer {
public:
    ListProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), redis_(options) {}
    int fd() const override { return redis_.wire.fd(); }

    void readable() override {
        if (redis_.receive([](int, const redisReply *) {})) answered();
    }

protected:
    void request(const std::vector<uint32_t> &numbers) override {
        std::vector<std::string> words = {"LPUSH", kQueue};
        for (uint32_t number : numbers) words.push_back(payload(number));
        redis_.append(words);
        redis_.send();
    }

private:
    RedisConversation redis_;
};

class RedisLists final : public Broker {
public:
    explicit RedisLists(const Options &options) : options_(options) {}

    void reset() override { RedisWire(options_).call({"FLUSHALL"}); }
    std::unique_ptr<Client> consumer(Record &record, int number) override {
        return std::make_unique<ListConsumer>(options_, record, number);
    }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<ListProducer>(options_, record, first, last, step);
    }

    // Jobs that are waiting, and jobs that disconnected workers had claimed.
    std::vector<uint32_t> left() override {
        RedisWire redis(options_);
        std::vector<uint32_t> numbers;
        Reply keys = redis.call({"KEYS", "*"});
        for (size_t key = 0; key < keys->elements; key++) {
            Reply jobs = redis.call({"LRANGE", text_of(keys->element[key]), "0", "-1"});
            for (size_t i = 0; i < jobs->elements; i++) {
                numbers.push_back(number_of(jobs->element[i]->str, jobs->element[i]->len));
            }
        }
        return numbers;
    }

private:
    const Options options_;
};

}  // namespace

std::unique_ptr<Broker> redis_lists(const Options &options) { return std::make_unique<RedisLists>(options); }
