// NATS JetStream: a stream with work-queue retention and one pull consumer that all clients share. An acknowledgement has a reply
// subject, so the client can wait for the answer. fused: it is sent together with the request for the next job.

#include "wire.h"

namespace {

constexpr char kNext[] = "$JS.API.CONSUMER.MSG.NEXT.bench.workers";

constexpr int64_t kLongWait = 3'600'000'000'000, kShortWait = 1'000'000'000;

struct Message {
    std::string reply, body;
    bool status = false;  // not a message, but a status such as no messages or timeout
};

class NatsWire {
public:
    explicit NatsWire(const Options &options) : wire_(options) {
        static unsigned connections = 0;
        inbox_ = "_INBOX." + std::to_string(reinterpret_cast<uintptr_t>(this)) + "." + std::to_string(connections++);
        wire_.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\nSUB " + inbox_ + " 1\r\n");
    }

    int fd() const { return wire_.fd(); }
    void receive() { wire_.receive(); }
    void send(const std::string &text) { wire_.send(text); }
    std::string publish(const std::string &subject, const std::string &body) const {
        return "PUB " + subject + " " + inbox_ + " " + std::to_string(body.size()) + "\r\n" + body + "\r\n";
    }

    bool next(Message &message) {
        std::string line;
        while (wire_.line(line)) {
            bool headers = line.compare(0, 5, "HMSG ") == 0;
            if (!headers && line.compare(0, 4, "MSG ") != 0) {
                if (line.compare(0, 4, "-ERR") == 0) throw std::runtime_error("NATS: " + line);
                wire_.take_line(line);
                if (line == "PING") wire_.send("PONG\r\n");
                continue;
            }
            // MSG subject sid [reply] bytes, HMSG subject sid [reply] header-bytes total-bytes
            std::vector<std::string> words = split(line);
            size_t fixed = headers ? 5 : 4, size = std::stoul(words.back());
            const char *body = wire_.bytes(line.size() + 2, size + 2);
            if (!body) return false;
            message.reply = words.size() > fixed ? words[3] : "";
            message.body.assign(body, size);
            message.status = headers;
            wire_.take(line.size() + 2 + size + 2);
            return true;
        }
        return false;
    }

    // Sends a request to the API and waits for its answer.
    std::string call(const std::string &subject, const std::string &body) {
        wire_.send(publish(subject, body));
        Message message;
        while (!next(message)) wire_.await();
        return message.body;
    }
    std::string must(const std::string &subject, const std::string &body) {
        std::string answer = call(subject, body);
        if (answer.empty() || answer.find("\"error\"") != std::string::npos) throw std::runtime_error("NATS: " + subject + ": " + answer);
        return answer;
    }
    void await() { wire_.await(); }

private:
    static std::vector<std::string> split(const std::string &line) {
        std::vector<std::string> words;
        for (size_t at = 0; at < line.size();) {
            size_t end = std::min(line.find(' ', at), line.size());
            if (end > at) words.push_back(line.substr(at, end - at));
            at = end + 1;
        }
        return words;
    }

    Wire wire_;
    std::string inbox_;
};

// The server may fail to report that the queue is empty, so a waiting request has a timeout.
std::string pull(int batch) { return "{\"batch\":" + std::to_string(batch) + ",\"no_wait\":true,\"expires\":1000000000}"; }

class NatsConsumer final : public Consumer {
public:
    NatsConsumer(const Options &options, Record &record) : Consumer(options, record), nats_(options) {}
    int fd() const override { return nats_.fd(); }

    void readable() override {
        nats_.receive();
        Message message;
        while (nats_.next(message)) {
            if (message.status) {
                messages_ = 0;
            } else if (message.reply.empty()) {
                acknowledgements_--;
            } else {
                claimed_.push_back({number_of(message.body.data(), message.body.size()), message.reply});
                messages_--;
            }
            if (messages_ == 0 && acknowledgements_ == 0) answered(std::exchange(claimed_, {}));
        }
    }

protected:
    void request(const std::vector<Job> &acknowledge, int claim) override {
        std::string out;
        for (const Job &job : acknowledge) out += nats_.publish(job.token, "+ACK");
        if (claim > 0) out += nats_.publish(kNext, pull(claim));
        acknowledgements_ = static_cast<int>(acknowledge.size());
        messages_ = claim;
        nats_.send(out);
    }

private:
    NatsWire nats_;
    int acknowledgements_ = 0, messages_ = 0;
    std::vector<Job> claimed_;
};

class NatsProducer final : public Producer {
public:
    NatsProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), nats_(options) {}
    int fd() const override { return nats_.fd(); }

    void readable() override {
        nats_.receive();
        Message message;
        while (awaited_ > 0 && nats_.next(message)) {
            if (message.status || message.body.find("\"seq\"") == std::string::npos) {
                throw std::runtime_error("NATS: not stored: " + message.body);
            }
            awaited_--;
            if (awaited_ == 0) answered();
        }
    }

protected:
    void request(const std::vector<uint32_t> &numbers) override {
        std::string out;
        for (uint32_t number : numbers) out += nats_.publish("bench", payload(number));
        awaited_ = numbers.size();
        nats_.send(out);
    }

private:
    NatsWire nats_;
    size_t awaited_ = 0;
};

class Nats final : public Broker {
public:
    explicit Nats(const Options &options) : options_(options) {}

    void reset() override {
        NatsWire nats(options_);
        nats.call("$JS.API.STREAM.DELETE.bench", "");
        nats.must("$JS.API.STREAM.CREATE.bench",
                  "{\"name\":\"bench\",\"subjects\":[\"bench\"],\"retention\":\"workqueue\",\"storage\":\"file\",\"num_replicas\":1,"
                  "\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"discard\":\"old\"}");
        make_consumer(nats, kLongWait);
    }
    std::unique_ptr<Client> consumer(Record &record, int) override { return std::make_unique<NatsConsumer>(options_, record); }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<NatsProducer>(options_, record, first, last, step);
    }

    // Unacknowledged messages are delivered again after the acknowledgement timeout, which is made short here. The consumer keeps
    // its state.
    std::vector<uint32_t> left() override {
        NatsWire nats(options_);
        make_consumer(nats, kShortWait);
        std::vector<uint32_t> numbers;
        const int batch = 200;
        for (auto since = Clock::now(); Clock::now() - since < std::chrono::nanoseconds(3 * kShortWait);) {
            nats.send(nats.publish(kNext, pull(batch)));
            std::string acknowledgements;
            for (int i = 0; i < batch; i++) {
                Message message;
                while (!nats.next(message)) nats.await();
                if (message.status) break;
                numbers.push_back(number_of(message.body.data(), message.body.size()));
                acknowledgements += "PUB " + message.reply + " 4\r\n+ACK\r\n";
                since = Clock::now();
            }
            nats.send(acknowledgements);
        }
        return numbers;
    }

private:
    // Creates the consumer, or changes its acknowledgement timeout, which is in nanoseconds.
    static void make_consumer(NatsWire &nats, int64_t wait) {
        nats.must("$JS.API.CONSUMER.DURABLE.CREATE.bench.workers",
                  "{\"stream_name\":\"bench\",\"config\":{\"durable_name\":\"workers\",\"ack_policy\":\"explicit\",\"ack_wait\":" + std::to_string(wait) +
                  ",\"deliver_policy\":\"all\",\"replay_policy\":\"instant\",\"max_deliver\":-1,\"max_ack_pending\":-1,\"max_waiting\":512}}");
    }

    const Options options_;
};

}  // namespace

std::unique_ptr<Broker> nats(const Options &options) { return std::make_unique<Nats>(options); }
