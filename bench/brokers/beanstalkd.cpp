// beanstalkd: reserve and delete. fused: both in one write. beanstalkd has no batches. Jobs are enqueued with pipelined puts.

#include "wire.h"

namespace {

constexpr char kTimeToRun[] = "3600";

class BeanstalkConsumer final : public Consumer {
public:
    BeanstalkConsumer(const Options &options, Record &record) : Consumer(options, record), wire_(options) {}
    int fd() const override { return wire_.fd(); }

    void readable() override {
        wire_.receive();
        std::string line;
        while (awaited_ > 0 && wire_.line(line)) {
            if (line.compare(0, 9, "RESERVED ") == 0) {
                size_t space = line.find(' ', 9), length = std::stoul(line.substr(space + 1));
                const char *body = wire_.bytes(line.size() + 2, length + 2);
                if (!body) return;
                claimed_.push_back({number_of(body, length), line.substr(9, space - 9)});
                wire_.take(length + 2);
            } else if (line != "DELETED" && line != "TIMED_OUT") {
                throw std::runtime_error("beanstalkd: " + line);
            }
            wire_.take_line(line);
            awaited_--;
            if (awaited_ == 0) answered(std::exchange(claimed_, {}));
        }
    }

protected:
    void request(const std::vector<Job> &acknowledge, int claim) override {
        std::string out;
        for (const Job &job : acknowledge) out += "delete " + job.token + "\r\n";
        for (int i = 0; i < claim; i++) out += "reserve-with-timeout 0\r\n";
        awaited_ = static_cast<int>(acknowledge.size()) + claim;
        wire_.send(out);
    }

private:
    Wire wire_;
    int awaited_ = 0;
    std::vector<Job> claimed_;
};

class BeanstalkProducer final : public Producer {
public:
    BeanstalkProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), wire_(options) {}
    int fd() const override { return wire_.fd(); }

    void readable() override {
        wire_.receive();
        std::string line;
        while (awaited_ > 0 && wire_.line(line)) {
            if (line.compare(0, 9, "INSERTED ") != 0) throw std::runtime_error("beanstalkd: " + line);
            wire_.take_line(line);
            awaited_--;
            if (awaited_ == 0) answered();
        }
    }

protected:
    void request(const std::vector<uint32_t> &numbers) override {
        std::string out;
        for (uint32_t number : numbers) {
            std::string body = payload(number);
            out += std::string("put 0 0 ") + kTimeToRun + " " + std::to_string(body.size()) + "\r\n" + body + "\r\n";
        }
        awaited_ = numbers.size();
        wire_.send(out);
    }

private:
    Wire wire_;
    size_t awaited_ = 0;
};

class Beanstalkd final : public Broker {
public:
    explicit Beanstalkd(const Options &options) : options_(options) {}

    // The tube is empty because the server is new. beanstalkd has no command that empties a tube.
    void reset() override {
        if (!left().empty()) throw std::runtime_error("beanstalkd is not empty");
    }
    std::unique_ptr<Client> consumer(Record &record, int) override {
        return std::make_unique<BeanstalkConsumer>(options_, record);
    }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<BeanstalkProducer>(options_, record, first, last, step);
    }

    // Reads the jobs that can still be reserved after all other clients have disconnected. Closing the connection releases them.
    std::vector<uint32_t> left() override {
        Wire wire(options_);
        std::vector<uint32_t> numbers;
        const int ahead = 200;
        std::string ask, line;
        for (int i = 0; i < ahead; i++) ask += "reserve-with-timeout 0\r\n";
        for (bool more = true; more;) {
            wire.send(ask);
            for (int answers = 0; answers < ahead; answers++) {
                while (!wire.line(line)) wire.await();
                wire.take_line(line);
                // It warns once about a job whose time to run is about to end.
                if (line == "TIMED_OUT" || line == "DEADLINE_SOON") {
                    more = false;
                    continue;
                }
                if (line.compare(0, 9, "RESERVED ") != 0) throw std::runtime_error("beanstalkd: " + line);
                size_t length = std::stoul(line.substr(line.find(' ', 9) + 1));
                while (!wire.bytes(0, length + 2)) wire.await();
                numbers.push_back(number_of(wire.bytes(0, length), length));
                wire.take(length + 2);
            }
        }
        return numbers;
    }

private:
    const Options options_;
};

}  // namespace

std::unique_ptr<Broker> beanstalkd(const Options &options) { return std::make_unique<Beanstalkd>(options); }
