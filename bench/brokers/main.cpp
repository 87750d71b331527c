// The client of the brokers' benchmark, called by broker_peers.py:
//
//   broker_load BROKER ACTION [NAME=VALUE...]
//
//   fill    empties the queue and enqueues the jobs 1 to `jobs`
//   work    `clients` claim and acknowledge for `seconds`, after "ready" has been printed and a line has been read
//   crash   the same, while `producers` enqueue jobs from `first` on, one at a time, until the server is gone
//   left    prints the jobs that would still be delivered
//
// socket= or port= is the address of the server. The answers that the clients got are written to the file `log`, one job per
// line: e enqueued, d delivered, a acknowledged, l left. The last line of the output is JSON. work keeps its connections open
// until its input ends, so that the caller can measure the server processes that serve them.

#include "client.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <thread>

namespace {

constexpr uint32_t kNoLimit = 4'000'000'000;

const std::map<std::string, std::function<std::unique_ptr<Broker>(const Options &)>> kBrokers = {
    {"redis_lists", redis_lists}, {"redis_streams", redis_streams}, {"beanstalkd", beanstalkd}, {"nats", nats}, {"postgres", postgres},
};

struct Party {
    std::vector<std::unique_ptr<Record>> records;
    std::vector<std::unique_ptr<Client>> clients;

    Record &record() { return *records.emplace_back(std::make_unique<Record>()); }
};

double cpu_seconds() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Serves these clients until the time is up and each has acknowledged the jobs that it holds, or until the queue is empty or the
// server is gone.
void serve(const std::vector<Client *> &clients, Clock::time_point until) {
    std::vector<pollfd> fds;
    for (Client *client : clients) {
        client->begin();
        fds.push_back({client->fd(), POLLIN, 0});
    }
    bool stopped = false;
    for (;;) {
        bool any = false;
        for (size_t i = 0; i < clients.size(); i++) {
            if (clients[i]->done()) fds[i].fd = -1;
            any = any || fds[i].fd >= 0;
        }
        if (!any) return;
        auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (rest <= 0 && !stopped) {
            for (Client *client : clients) client->stop();
            stopped = true;
        }
        if (poll(fds.data(), fds.size(), stopped ? 1000 : static_cast<int>(std::max<int64_t>(rest, 0))) < 0 && errno != EINTR) {
            throw std::runtime_error(std::string("poll: ") + strerror(errno));
        }
        for (size_t i = 0; i < clients.size(); i++) {
            if (fds[i].fd >= 0 && fds[i].revents) clients[i]->readable();
        }
    }
}

// Each thread serves its share of the clients. If the server exits, all of them end, which is an error unless the run expects it.
bool serve_all(Party &party, int threads, double seconds) {
    auto until = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    std::vector<std::exception_ptr> errors(threads);
    std::vector<std::thread> running;
    for (int t = 0; t < threads; t++) {
        running.emplace_back([&, t] {
            std::vector<Client *> own;
            for (size_t i = t; i < party.clients.size(); i += threads) own.push_back(party.clients[i].get());
            try {
                serve(own, until);
            } catch (...) {
                errors[t] = std::current_exception();
            }
        });
    }
    for (std::thread &thread : running) thread.join();
    bool gone = false;
    for (const std::exception_ptr &error : errors) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const Gone &) {
            gone = true;
        }
    }
    return gone;
}

void write_log(const Options &options, const Party &party, const std::vector<uint32_t> &left) {
    if (options.text("log").empty()) return;
    FILE *file = fopen(options.text("log").c_str(), "w");
    if (!file) throw std::runtime_error("cannot write " + options.text("log"));
    auto all = [file](char kind, const std::vector<uint32_t> &numbers) {
        for (uint32_t number : numbers) fprintf(file, "%c %u\n", kind, number);
    };
    for (const auto &record : party.records) {
        all('e', record->enqueued);
        all('d', record->delivered);
        all('a', record->acknowledged);
    }
    all('l', left);
    if (fclose(file) != 0) throw std::runtime_error("cannot write " + options.text("log"));
}

struct Totals {
    size_t enqueued = 0, acknowledged = 0;
    bool drained = false;
    std::vector<uint32_t> lifecycles_us;
};

Totals totals(const Party &party) {
    Totals all;
    for (const auto &record : party.records) {
        all.enqueued += record->enqueued.size();
        all.acknowledged += record->acknowledged.size();
        all.drained = all.drained || record->drained;
        all.lifecycles_us.insert(all.lifecycles_us.end(), record->lifecycles_us.begin(), record->lifecycles_us.end());
    }
    std::sort(all.lifecycles_us.begin(), all.lifecycles_us.end());
    return all;
}

double percentile_ms(const Totals &all, double share) {
    if (all.lifecycles_us.empty()) return 0;
    return all.lifecycles_us[std::min(all.lifecycles_us.size() - 1, static_cast<size_t>(share * all.lifecycles_us.size()))] / 1000.0;
}

void await_a_line() {
    std::cout << "ready" << std::endl;
    std::string line;
    std::getline(std::cin, line);
}

void fill(Broker &broker, const Options &options) {
    broker.reset();
    Party party;
    uint32_t jobs = options.number("jobs", 0);
    party.clients.push_back(broker.producer(party.record(), 1, jobs, 1));
    if (serve_all(party, 1, 600)) throw std::runtime_error("the server has gone");
    size_t enqueued = totals(party).enqueued;
    if (enqueued != jobs) throw std::runtime_error("enqueued " + std::to_string(enqueued) + " of " + std::to_string(jobs));
    printf("{\"enqueued\": %zu}\n", enqueued);
}

void consumers(Broker &broker, const Options &options, Party &party) {
    for (int i = 0; i < options.number("clients", 16); i++) party.clients.push_back(broker.consumer(party.record(), i));
}

void work(Broker &broker, const Options &options) {
    Party party;
    consumers(broker, options, party);
    await_a_line();
    double cpu = cpu_seconds();
    auto began = Clock::now();
    if (serve_all(party, options.number("threads", 1), options.number("milliseconds", 1000) / 1000.0)) {
        throw std::runtime_error("the server has gone");
    }
    double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    cpu = cpu_seconds() - cpu;
    Totals all = totals(party);
    write_log(options, party, {});
    printf("{\"acknowledged\": %zu, \"seconds\": %.6f, \"client_cpu_s\": %.6f, \"drained\": %s, \"p50_ms\": %.4f, \"p99_ms\": %.4f}\n",
           all.acknowledged, seconds, cpu, all.drained ? "true" : "false", percentile_ms(all, 0.5), percentile_ms(all, 0.99));
    fflush(stdout);
    std::string rest;
    while (std::getline(std::cin, rest)) {
    }
}

void crash(Broker &broker, const Options &options) {
    Party party;
    consumers(broker, options, party);
    uint32_t producers = options.number("producers", 4), first = options.number("first", 1);
    for (uint32_t i = 0; i < producers; i++) {
        party.clients.push_back(broker.producer(party.record(), first + i, kNoLimit, producers));
    }
    await_a_line();
    bool gone = serve_all(party, options.number("threads", 1), 60);
    Totals all = totals(party);
    write_log(options, party, {});
    printf("{\"gone\": %s, \"drained\": %s, \"enqueued\": %zu, \"acknowledged\": %zu}\n", gone ? "true" : "false",
           all.drained ? "true" : "false", all.enqueued, all.acknowledged);
}

void left(Broker &broker, const Options &options) {
    std::vector<uint32_t> numbers = broker.left();
    write_log(options, {}, numbers);
    printf("{\"left\": %zu}\n", numbers.size());
}

}  // namespace

int main(int count, char **arguments) {
    // Without MSG_NOSIGNAL, hiredis may write to a killed server once more, which would raise SIGPIPE.
    std::signal(SIGPIPE, SIG_IGN);
    try {
        Options options;
        for (int i = 3; i < count; i++) {
            std::string argument = arguments[i];
            size_t equals = argument.find('=');
            if (equals == std::string::npos) throw std::runtime_error("NAME=VALUE expected: " + argument);
            options.given[argument.substr(0, equals)] = argument.substr(equals + 1);
        }
        const std::map<std::string, void (*)(Broker &, const Options &)> actions = {
            {"fill", fill}, {"work", work}, {"crash", crash}, {"left", left}};
        if (count < 3 || !kBrokers.count(arguments[1]) || !actions.count(arguments[2])) {
            throw std::runtime_error("usage: broker_load BROKER fill|work|crash|left [NAME=VALUE...]");
        }
        auto broker = kBrokers.at(arguments[1])(options);
        actions.at(arguments[2])(*broker, options);
    } catch (const std::exception &error) {
        fprintf(stderr, "broker_load: %s\n", error.what());
        return 1;
    }
    return 0;
}
