// The two loops that all brokers share: claim and acknowledge, and enqueue. Called by the files of the brokers.

#include "client.h"

#include <cstdio>

std::string payload(uint32_t number) {
    char text[16];
    snprintf(text, sizeof text, "%012u", number);
    return std::string("{\"n\": \"") + text + "\", \"text\": \"" + std::string(67, 'x') + "\"}";
}

uint32_t number_of(const char *payload, size_t length) {
    size_t at = 0;
    while (at < length && (payload[at] < '0' || payload[at] > '9')) at++;
    uint32_t number = 0;
    for (; at < length && payload[at] >= '0' && payload[at] <= '9'; at++) number = number * 10 + (payload[at] - '0');
    if (number == 0) throw std::runtime_error("no payload of ours: " + std::string(payload, length));
    return number;
}

Consumer::Consumer(const Options &options, Record &record)
    : batch_(options.number("batch", 1)), fused_(options.number("fused", 0) != 0), record_(record) {}

void Consumer::begin() { send(false, true); }

void Consumer::send(bool acknowledge, bool claim) {
    static const std::vector<Job> nothing;
    acknowledging_ = acknowledge;
    claiming_ = claim;
    // A lifecycle begins with the claim. If both are one call, it begins with the call that acknowledges the previous
    // job.
    if (claim) began_ = Clock::now();
    request(acknowledge ? held_ : nothing, claim ? batch_ : 0);
}

void Consumer::answered(std::vector<Job> &&claimed) {
    if (acknowledging_) {
        for (const Job &job : held_) record_.acknowledged.push_back(job.number);
        held_.clear();
    }
    const bool closes = fused_ ? claiming_ : acknowledging_;
    if (closes) {
        auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_).count();
        record_.lifecycles_us.push_back(static_cast<uint32_t>(took));
    }
    if (claiming_) {
        for (const Job &job : claimed) record_.delivered.push_back(job.number);
        held_ = std::move(claimed);
        if (held_.empty()) {
            record_.drained = true;
            done_ = true;
            return;
        }
    }
    if (stopping_ && held_.empty()) {
        done_ = true;
    } else if (held_.empty()) {
        send(false, true);
    } else {
        send(true, fused_ && !stopping_);
    }
}

Producer::Producer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
    : batch_(options.number("enqueue", 500)), record_(record), next_(first), last_(last), step_(step) {}

void Producer::begin() { next(); }

void Producer::next() {
    under_way_.clear();
    for (; !stopping_ && under_way_.size() < batch_ && next_ <= last_; next_ += step_) under_way_.push_back(next_);
    if (under_way_.empty()) {
        done_ = true;
    } else {
        request(under_way_);
    }
}

void Producer::answered() {
    record_.enqueued.insert(record_.enqueued.end(), under_way_.begin(), under_way_.end());
    next();
}
