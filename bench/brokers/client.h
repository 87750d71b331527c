// The interface that the file of each broker implements: clients that enqueue, clients that claim and acknowledge, and the jobs
// that are left. The clients do not block, because main.cpp waits for all of them at once, so that the same loop drives each
// broker.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;

// The server has exited, which the runs with a kill wait for.
struct Gone : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Options {
    std::map<std::string, std::string> given;

    std::string text(const std::string &name, const std::string &otherwise = "") const {
        auto found = given.find(name);
        return found == given.end() ? otherwise : found->second;
    }
    int number(const std::string &name, int otherwise) const {
        auto found = given.find(name);
        return found == given.end() ? otherwise : std::stoi(found->second);
    }
};

struct Job {
    uint32_t number;
    std::string token;  // identifies the job in an acknowledgement
};

// The answers that one client got. A job counts as enqueued or acknowledged when the answer has arrived.
struct Record {
    std::vector<uint32_t> enqueued, delivered, acknowledged;
    std::vector<uint32_t> lifecycles_us;
    bool drained = false;
};

// The same 100 bytes as bench_payload() in contenders.py.
std::string payload(uint32_t number);
uint32_t number_of(const char *payload, size_t length);

class Client {
public:
    virtual ~Client() = default;
    virtual int fd() const = 0;
    virtual void begin() = 0;
    // Processes the input that has arrived and sends the next requests.
    virtual void readable() = 0;
    bool done() const { return done_; }
    void stop() { stopping_ = true; }

protected:
    bool done_ = false, stopping_ = false;
};

// Claims `batch` jobs and acknowledges them. fused: the acknowledgement is sent together with the next claim, in one round trip.
class Consumer : public Client {
public:
    Consumer(const Options &options, Record &record);
    void begin() final;

protected:
    // Sends the acknowledgements and the claim, either of which may be empty. Call answered() when all answers have arrived.
    virtual void request(const std::vector<Job> &acknowledge, int claim) = 0;
    void answered(std::vector<Job> &&claimed);

    const int batch_;

private:
    void send(bool acknowledge, bool claim);

    const bool fused_;
    Record &record_;
    std::vector<Job> held_;
    bool acknowledging_ = false, claiming_ = false;
    Clock::time_point began_;
};

// Enqueues the jobs `first`, `first` + `step`, ... up to `last`, in batches of `batch`.
class Producer : public Client {
public:
    Producer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step);
    void begin() final;

protected:
    virtual void request(const std::vector<uint32_t> &numbers) = 0;
    void answered();

private:
    void next();

    const size_t batch_;
    Record &record_;
    uint32_t next_;
    const uint32_t last_, step_;
    std::vector<uint32_t> under_way_;
};

class Broker {
public:
    virtual ~Broker() = default;
    // Creates the empty queue.
    virtual void reset() = 0;
    virtual std::unique_ptr<Client> consumer(Record &record, int number) = 0;
    virtual std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) = 0;
    // Returns the numbers of the jobs that would still be delivered.
    virtual std::vector<uint32_t> left() = 0;
};

std::unique_ptr<Broker> redis_lists(const Options &options);
std::unique_ptr<Broker> redis_streams(const Options &options);
std::unique_ptr<Broker> beanstalkd(const Options &options);
std::unique_ptr<Broker> nats(const Options &options);
std::unique_ptr<Broker> postgres(const Options &options);
