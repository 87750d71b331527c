// What every broker's file implements: clients that enqueue, clients that claim and acknowledge, and what is left. The clients do
// not block: main.cpp waits for all of them at once, so that the same loop drives each broker.

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

// The server has gone, which is what the runs with a kill wait for.
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
    std::string token;  // what the acknowledgement names it by
};

// What one client has been told. A job counts as enqueued or acknowledged when the answer has come.
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
    // Takes what has come, and sends what follows.
    virtual void readable() = 0;
    bool done() const { return done_; }
    void stop() { stopping_ = true; }

protected:
    bool done_ = false, stopping_ = false;
};

// Claims `batch` jobs and acknowledges them; fused: the acknowledgement goes with the next claim, in one round trip.
class Consumer : public Client {
public:
    Consumer(const Options &options, Record &record);
    void begin() final;

protected:
    // Sends both, either may be nothing; answered() is to be called when the answers to all of it have come.
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

// Enqueues jobs `first`, `first` + `step` ... up to `last`, `batch` at a time.
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
    // Makes the queue, empty.
    virtual void reset() = 0;
    virtual std::unique_ptr<Client> consumer(Record &record, int number) = 0;
    virtual std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) = 0;
    // The numbers of the jobs that would still be delivered.
    virtual std::vector<uint32_t> left() = 0;
};

std::unique_ptr<Broker> redis_lists(const Options &options);
std::unique_ptr<Broker> redis_streams(const Options &options);
std::unique_ptr<Broker> beanstalkd(const Options &options);
std::unique_ptr<Broker> nats(const Options &options);
std::unique_ptr<Broker> postgres(const Options &options);
