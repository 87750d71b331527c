// A jobq worker in C++17 for libpqxx 6.4, 7, and 8 (which needs C++20). Copy this file. The contract is in clients/CONTRACT.md.
//
//     try {
//         jobq::Worker worker(jobq::Options::from_environment());
//         worker.handle("welcome", [](jobq::Job &job) { ...; return std::string("{\"sent\": true}"); });
//         _exit(worker.run());    // before the worker is destroyed, because its threads still use it
//     } catch (const std::exception &error) {    // a wrong option, or no connection at the start
//         std::cerr << error.what() << std::endl;
//         _exit(1);
//     }
//
// A process runs one worker, because run() handles the signals. Start one process per queue.
//
// Payloads, results, and progress are JSON texts, which you can parse with any library. A handler runs in a thread and checks
// job.cancelled(). jobq::execute uses no named prepared statements, so PgBouncer needs no special setting. A nontransaction is what
// libpqxx calls autocommit mode.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <pqxx/pqxx>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace jobq {

using Clock = std::chrono::steady_clock;
using Text = std::optional<std::string>;

inline double seconds_since(Clock::time_point moment) { return std::chrono::duration<double>(Clock::now() - moment).count(); }
inline void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Returns between half of the pause and all of it, so that workers whose connections broke together do not reconnect together.
inline double about(double pause)
{
    thread_local std::minstd_rand random{std::random_device()()};
    return pause * std::uniform_real_distribution<double>(0.5, 1)(random);
}

inline const char *or_null(const Text &text) { return text ? text->c_str() : nullptr; }

// Returns the message as text that the server accepts: each byte that is not valid UTF-8 becomes a question mark. The text ends
// before the first NUL.
inline std::string as_text(const std::string &message)
{
    std::string text;
    const auto byte = [&message](size_t at) { return at < message.size() ? static_cast<unsigned char>(message[at]) : 0U; };
    for (size_t at = 0; at < message.size() && byte(at) != 0;) {
        const unsigned first = byte(at), second = byte(at + 1);
        size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
        for (size_t ahead = 1; ahead < length; ++ahead)
            if ((byte(at + ahead) & 0xC0) != 0x80)
                length = 0;
        // Overlong forms, surrogates, and values above the range of Unicode.
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
            (first == 0xF4 && second >= 0x90))
            length = 0;
        text += length == 0 ? "?" : message.substr(at, length);
        at += std::max<size_t>(length, 1);
    }
    return text;
}

// Returns valid UTF-8 with a question mark for each character that is not ASCII.
inline std::string as_ascii(const std::string &message)
{
    std::string text;
    for (const char byte : message)
        if ((byte & 0x80) == 0)
            text += byte;
        else if ((byte & 0xC0) == 0xC0)    // the first byte of a character
            text += '?';
    return text;
}

struct OptionError : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// Fails the attempt. The job is retried after retry_in seconds or the queue's backoff, or not at all if final is true.
struct Fail : std::runtime_error {
    std::optional<double> retry_in;
    bool final;
    explicit Fail(const std::string &message, std::optional<double> in = {}, bool is_final = false)
        : runtime_error(message), retry_in(in), final(is_final)
    {
    }
};

// The following types do not derive from std::exception, so that a handler that catches std::exception does not catch them.
struct Snooze {
    double delay;
};
struct Stop {
    std::string reason;
};
struct Waiting {
};

struct Options {
    std::string queue = "default", worker_id;
    int slots = 1;
    std::optional<double> heartbeat_timeout, heartbeat_interval;
    double wait_timeout = 30, grace = 25;

    static Options from_environment()
    {
        Options options;
        char host[100] = "cpp";
        gethostname(host, sizeof host - 1);
        options.worker_id = std::string(host) + "-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device()());
        read("queue", options.queue);
        read("worker_id", options.worker_id);
        std::string slots = "1";
        read("slots", slots);
        if (!std::regex_match(slots, std::regex("[0-9]{1,4}")) || std::stoi(slots) < 1 || std::stoi(slots) > 1000)
            throw OptionError("option \"slots\" must be an integer from 1 to 1000; it is " + slots);
        options.slots = std::stoi(slots);
        options.heartbeat_timeout = number("heartbeat_timeout");
        options.heartbeat_interval = number("heartbeat_interval");
        options.wait_timeout = number("wait_timeout").value_or(options.wait_timeout);
        options.grace = number("grace").value_or(options.grace);
        if (options.worker_id.rfind("backend:", 0) == 0)
            throw OptionError("option \"worker_id\" must not begin with \"backend:\"; it is " + options.worker_id);
        return options;
    }

private:
    static bool read(std::string name, std::string &value)
    {
        std::transform(name.begin(), name.end(), name.begin(), ::toupper);
        const char *text = std::getenv(("JOBQ_" + name).c_str());
        if (text == nullptr || *text == '\0')
            return false;
        value = text;
        return true;
    }

    static std::optional<double> number(const std::string &name)
    {
        std::string text;
        if (!read(name, text))
            return {};
        const bool beats = name.rfind("heartbeat", 0) == 0;
        if (!std::regex_match(text, std::regex("[0-9]{1,9}(\\.[0-9]+)?")) || (beats && std::stod(text) < 0.01))
            throw OptionError("option \"" + name + "\" must be a number of seconds, at least " + (beats ? "0.01" : "0") + "; it is " + text);
        return std::stod(text);
    }
};

// ---- differences between the versions of libpqxx

// libpqxx 6 must raise an error if a connection is broken, instead of opening it again. Later versions always do.
inline void fail_if_broken([[maybe_unused]] pqxx::connection &connection)
{
#if PQXX_VERSION_MAJOR < 7
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
}

// Executes a statement without a named prepared statement. libpqxx 7.10 deprecates exec_params, which older versions need.
template <typename... Values> pqxx::result execute(pqxx::transaction_base &transaction, const std::string &statement, const Values &...values)
{
#if PQXX_VERSION_MAJOR > 7 || (PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR >= 10)
    return transaction.exec(statement, pqxx::params{values...});
#else
    return transaction.exec_params(statement, values...);
#endif
}

// A row of a result is a pqxx::row, or in libpqxx 8 a pqxx::row_ref.
using Row = decltype(std::declval<const pqxx::result &>()[0]);
using Field = decltype(std::declval<const Row &>()[0]);

inline Text text_of(const Field &field) { return field.is_null() ? Text() : Text(field.c_str()); }

template <typename... Values> Text one(pqxx::transaction_base &transaction, const std::string &statement, const Values &...values)
{
    const pqxx::result rows = execute(transaction, statement, values...);
    return text_of(rows.at(0)[0]);
}

// ---- connections and errors

inline std::unique_ptr<pqxx::connection> connect(const std::string &conninfo)
{
    auto connection = std::make_unique<pqxx::connection>("connect_timeout=10 keepalives_idle=30 keepalives_interval=10 keepalives_count=3 "
                                                         "tcp_user_timeout=30000 client_encoding=UTF8 " +
                                                         conninfo);
    fail_if_broken(*connection);
    return connection;
}

inline std::string sqlstate(const std::exception &error)
{
    const auto *refused = dynamic_cast<const pqxx::sql_error *>(&error);
    // For these two errors, libpqxx 6 throws exceptions without an SQLSTATE.
    return refused != nullptr                                                      ? std::string(refused->sqlstate())
           : dynamic_cast<const pqxx::serialization_failure *>(&error) != nullptr ? "40001"
           : dynamic_cast<const pqxx::deadlock_detected *>(&error) != nullptr     ? "40P01"
                                                                                   : "";
}

// Returns whether the statement may succeed on a new connection. A collision (40001, 40P01) only has to be repeated, but a new
// connection does no harm.
inline bool is_broken(const pqxx::connection *connection, const std::exception &error)
{
    const std::string state = sqlstate(error);
    return connection == nullptr || !connection->is_open() || dynamic_cast<const pqxx::broken_connection *>(&error) != nullptr ||
           state.empty() || std::regex_match(state, std::regex("(08|53|57|58).*|25006|40001|40P01"));
}

// The job that a handler receives.
class Job {
public:
    const long id, lease;
    const std::string kind, payload;
    const int attempt;
    const Text progress, metadata;    // progress: what an earlier attempt reported last

    Job(const Row &row, const std::string &conninfo)
        : id(row["id"].as<long>()), lease(row["lease"].as<long>()), kind(row["kind"].c_str()), payload(row["payload"].c_str()),
          attempt(row["attempt"].as<int>()), progress(text_of(row["progress"])), metadata(text_of(row["metadata"])),
          heartbeat_seconds(row["heartbeat_seconds"].as<double>()), conninfo_(conninfo)
    {
    }

    // Returns why the handler should stop: "", "cancel", "lost", or "stopping".
    std::string cancelled() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return reason_;
    }

    void check() const
    {
        const std::string reason = cancelled();
        if (!reason.empty())
            throw Stop{reason};
    }

    // Sleeps. Throws if the handler should stop in the meantime.
    void pause(double seconds)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stopped_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !reason_.empty(); });
        lock.unlock();
        check();
    }

    // The progress is sent with a heartbeat, within about a second.
    void set_progress(const std::string &json)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        new_progress_ = json;
    }

    // Returns the job's own connection, which is closed when its handler has ended.
    pqxx::connection &connection()
    {
        if (!connection_ || !connection_->is_open())
            connection_ = connect(conninfo_);
        return *connection_;
    }

    using Work = std::function<std::string(pqxx::work &)>;

    // Commits the writes of the work and the completion together, or neither. The work returns the result.
    Text completing(const Work &work)
    {
        transaction(work, [this](pqxx::work &own, const std::string &result) {
            return one(own, "SELECT jobq_complete($1, $2, $3::jsonb, must_hold => true)", id, lease, result);
        });
        done = true;
        return {};
    }

    // Runs the work once, even if the job is retried: its writes are committed together with its saved result.
    std::string step(const std::string &name, const Work &work)
    {
        {
            pqxx::nontransaction asking(connection());
            const pqxx::result rows = execute(asking, "SELECT state, result FROM jobq_step($1, $2, $3)", id, lease, name);
            const Row row = rows.at(0);
            const std::string state = row[0].c_str();
            if (state == "done")
                return text_of(row[1]).value_or("null");
            if (state != "run")
                gone(state);
        }
        return transaction(work, [this, &name](pqxx::work &own, const std::string &result) {
                   return one(own, "SELECT result FROM jobq_step_done($1, $2, $3, $4::jsonb)", id, lease, name, result);
               }).value_or("null");
    }

    // Returns the payload of a signal. While the job waits for the signal, it uses no worker.
    Text wait_for(const std::string &event)
    {
        pqxx::nontransaction asking(connection());
        const pqxx::result rows = execute(asking, "SELECT state, payload FROM jobq_await($1, $2, $3)", id, lease, event);
        const Row row = rows.at(0);
        const std::string state = row[0].c_str();
        if (state == "waiting")
            throw Waiting();
        if (state != "ready")
            gone(state);
        return text_of(row[1]);
    }

private:
    friend class Worker;
    const double heartbeat_seconds;
    const std::string conninfo_;
    mutable std::mutex mutex_;
    std::condition_variable stopped_;
    std::string reason_;
    Text new_progress_;
    std::unique_ptr<pqxx::connection> connection_;
    Clock::time_point beat_at = Clock::now();    // used only by the thread that sends heartbeats
    std::atomic<bool> reporting{false}, done{false};

    void stop(const std::string &reason)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (reason_.empty() || reason == "lost")
            reason_ = reason;
        stopped_.notify_all();
    }

    Text take_progress()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        Text taken;
        std::swap(taken, new_progress_);
        return taken;
    }

    void keep_progress(const Text &progress)    // for progress that could not be sent
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!new_progress_)
            new_progress_ = progress;
    }

    void gone(const std::string &state)
    {
        stop(state == "lost" ? "lost" : "cancel");
        check();
    }

    Text transaction(const Work &work, const std::function<Text(pqxx::work &, const std::string &)> &last)
    {
        try {
            pqxx::work own(connection());
            const Text said = last(own, work(own));
            own.commit();
            return said;
        } catch (const pqxx::sql_error &error) {
            if (error.sqlstate() == "JQ001")
                gone("lost");
            throw;
        }
    }
};

// Returns the result of the job as JSON, or nothing.
using Handler = std::function<Text(Job &)>;

class Worker {
public:
    explicit Worker(Options options, std::string conninfo = "") : options_(std::move(options)), conninfo_(std::move(conninfo)) {}

    // Registers the handler of a kind. The kind "" means jobs without a kind.
    void handle(const std::string &kind, Handler handler) { handlers_[kind] = std::move(handler); }

    // Works until SIGTERM or SIGINT and returns the exit status. Then the process should end with _exit, because handlers that
    // were given up are still running.
    int run()
    {
        if (handlers_.empty())
            throw OptionError("option \"handlers\" must name at least one kind");
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        pthread_sigmask(SIG_BLOCK, &signals, nullptr);    // before any thread starts; run() waits for the signals below
        open();
        say("serves queue \"" + options_.queue + "\", kinds " + kinds() + "; leaves jobs of other kinds to other workers");
        std::thread([this] { claim_all(); }).detach();
        std::thread([this] { heartbeat_all(); }).detach();
        std::thread([this] { run_asides(); }).detach();
        while (!stopping_ && !signalled(signals)) {
        }
        stop_claims();
        say("stopping, no more claims");
        aside([this] { attempt([this](pqxx::nontransaction &own) { return one(own, "SELECT jobq_wake($1)", options_.worker_id); }); });
        const auto begun = Clock::now();
        while ((claiming_ || in_hand() > 0) && seconds_since(begun) < options_.grace && !signalled(signals)) {
        }
        const bool clean = give_back();
        say("stopped");
        return clean && !failed_ ? 0 : 1;
    }

private:
    const Options options_;
    const std::string conninfo_;
    std::map<std::string, Handler> handlers_;
    std::mutex mutex_;    // protects running_ and conflicts_
    std::condition_variable changed_;
    std::map<long, std::shared_ptr<Job>> running_;    // by lease
    std::map<long, int> conflicts_;                   // number of collisions of the job's own transaction, by ID
    bool waits_canceled_ = false;
    Clock::time_point look_at_;    // when to look for jobs of other kinds again
    bool pooled_ = false, has_polled_ = false;
    std::optional<Clock::time_point> polls_until_;    // protected by mutex_
    int polls_in_a_row_ = 0;
    std::unique_ptr<pqxx::connection> claims_, beats_;
    std::mutex beats_mutex_;
    double wait_timeout_ = 0;
    std::atomic<bool> stopping_{false}, claiming_{true}, failed_{false}, unreported_{false};
    std::atomic<Clock::time_point> give_up_at_{Clock::time_point::max()};
    std::mutex log_mutex_;
    std::mutex asides_mutex_;
    std::condition_variable asides_changed_;
    std::deque<std::function<void()>> asides_;

    void say(const std::string &text)
    {
        std::lock_guard<std::mutex> lock(log_mutex_);
        std::cerr << options_.worker_id << ": " << text << std::endl;
    }

    static constexpr const char *RELEASE = "SELECT jobq_release($1, $2)";

    void say_of(const Job &job, const std::string &what) { say("job " + std::to_string(job.id) + " of kind " + job.kind + ": " + what); }
    void say_lost(const Job &job) { say_of(job, "the lease is lost"); }

    static bool signalled(const sigset_t &signals)
    {
        const timespec soon{0, 50000000};
        return sigtimedwait(&signals, nullptr, &soon) > 0;
    }

    void stop_claims()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }

    std::vector<std::shared_ptr<Job>> held()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::shared_ptr<Job>> jobs;
        for (const auto &one : running_)
            jobs.push_back(one.second);
        return jobs;
    }

    size_t in_hand()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return running_.size();
    }

    // Gives handlers that check for a stop one second, and then releases the jobs of the others. Waits for the reports of
    // handlers that have ended.
    bool give_back()
    {
        for (const auto &job : held())
            job->stop("stopping");
        const auto begun = Clock::now();
        while (in_hand() > 0 && seconds_since(begun) < 1)
            rest(0.02);
        std::vector<std::shared_ptr<Job>> left;
        for (const auto &job : held())
            if (!job->reporting.exchange(true))
                left.push_back(job);
        give_up_at_ = Clock::now() + std::chrono::seconds(5);
        auto state = std::make_shared<std::atomic<int>>(-1);
        aside([this, left, state] {
            bool clean = true;
            for (const auto &job : left) {
                const Text answer =
                    attempt([&job](pqxx::nontransaction &own) { return one(own, RELEASE, job->id, job->lease); });
                if (answer == Text("t"))
                    say_of(*job, "released, its handler has not stopped");
                clean &= answer.has_value();
                ended(*job);
            }
            *state = clean;
        });
        const auto asked = Clock::now();
        while ((*state < 0 || in_hand() > 0) && seconds_since(asked) < 6)
            rest(0.02);
        for (const auto &job : held())
            could_not_report(*job);
        return *state == 1 && !unreported_;
    }

    void could_not_report(const Job &job)
    {
        unreported_ = true;
        say_of(job, "could not be reported");
    }

    // Runs calls that must not make another thread wait for the server, because a pooler whose server is down makes its clients
    // wait. The thread exists from the beginning, because starting one may fail later.
    void run_asides()
    {
        while (true) {
            std::unique_lock<std::mutex> lock(asides_mutex_);
            asides_changed_.wait(lock, [this] { return !asides_.empty(); });
            const auto next = std::move(asides_.front());
            asides_.pop_front();
            lock.unlock();
            next();
        }
    }

    void aside(std::function<void()> work)
    {
        std::lock_guard<std::mutex> lock(asides_mutex_);
        asides_.push_back(std::move(work));
        asides_changed_.notify_all();
    }

    // ---- connections

    // The first connections must succeed.
    void open()
    {
        claims_ = connect(conninfo_);
        beats_ = connect(conninfo_);
        wait_timeout_ = options_.wait_timeout;
        try {
            pqxx::nontransaction own(*beats_);
            pooled_ = one(own, "SELECT pg_backend_pid()") != Text(std::to_string(beats_->backendpid()));
            if (pooled_)
                wait_timeout_ = std::min(wait_timeout_, SHORT_WAIT);
            one(own, "SELECT jobq_wake($1)", options_.worker_id);
        } catch (const pqxx::sql_error &error) {
            if (error.sqlstate() == "42883")
                throw std::runtime_error(std::string("jobq is not in this database: ") + error.what());
            if (error.sqlstate() != "55000")
                throw;
            wait_timeout_ = std::min(wait_timeout_, SHORT_WAIT);    // if jobq is not preloaded, no function can end the wait
        }
    }

    struct Broken {
    };

    // An error with which the server rejected a report.
    struct Refusal {
        std::string message, state;
    };

    Text on_beats(const std::function<Text(pqxx::nontransaction &)> &function)
    {
        std::lock_guard<std::mutex> lock(beats_mutex_);
        try {
            if (!beats_)
                beats_ = connect(conninfo_);
            pqxx::nontransaction own(*beats_);
            const auto begun = Clock::now();
            const Text answer = function(own);
            answered(seconds_since(begun));
            return answer;
        } catch (const std::exception &error) {
            if (!is_broken(beats_.get(), error))
                throw;
            say(std::string("the connection is broken, trying again: ") + error.what());
            beats_.reset();
            throw Broken();
        }
    }

    // Repeats the report until the server has answered it. Returns nothing if the server rejected it, or if the worker gave up.
    Text attempt(const std::function<Text(pqxx::nontransaction &)> &function, std::optional<Refusal> *refused = nullptr)
    {
        for (double pause = 0.1;; pause = std::min(pause * 2, 5.0)) {
            try {
                return on_beats(function);
            } catch (const Broken &) {
                if (Clock::now() > give_up_at_.load())
                    return {};
                rest(about(pause));
            } catch (const std::exception &error) {
                say(std::string("refused: ") + error.what());
                if (refused != nullptr)
                    *refused = Refusal{error.what(), sqlstate(error)};
                return {};
            }
        }
    }

    // ---- claims

    static std::string span(double seconds) { return std::to_string(seconds) + " s"; }

    static Text span(const std::optional<double> &seconds) { return seconds ? Text(span(*seconds)) : Text(); }

    std::string kinds() const
    {
        std::string list;
        for (const auto &handler : handlers_)
            list += (list.empty() ? "{\"" : ",\"") + std::regex_replace(handler.first, std::regex("[\\\\\"]"), "\\$&") + "\"";
        return list + "}";
    }

    void claim_all()
    {
        double pause = 0.1;
        while (!stopping_) {
            int room;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                changed_.wait(lock, [this] { return stopping_ || static_cast<int>(running_.size()) < options_.slots; });
                room = options_.slots - static_cast<int>(running_.size());
            }
            if (stopping_)
                break;
            try {
                if (!claims_)
                    claims_ = connect(conninfo_);
                claim(room);
                pause = 0.1;
            } catch (const std::exception &error) {
                if (!is_broken(claims_.get(), error)) {
                    say(std::string("the claim was refused: ") + error.what());
                    failed_ = true;
                    stop_claims();
                    break;
                }
                say(std::string("no connection for claims, trying again: ") + error.what());
                claims_.reset();
                std::unique_lock<std::mutex> lock(mutex_);
                changed_.wait_for(lock, std::chrono::duration<double>(about(pause)), [this] { return stopping_.load(); });
                pause = std::min(pause * 2, 5.0);
            }
        }
        claiming_ = false;
    }

    // Seconds between two searches for jobs of the queue that the worker does not claim.
    static constexpr double LOOKS_EVERY = 600;

    // Logs which waiting jobs of the queue have no kind, or a kind without a handler in this worker. Reads at most a thousand
    // jobs of each lane. A role that may not read the tables tries only once.
    void look_for_others()
    {
        if (Clock::now() < look_at_)
            return;
        look_at_ = Clock::now() + std::chrono::seconds(static_cast<int>(LOOKS_EVERY));
        try {
            pqxx::nontransaction own(*claims_);
            const Text found = one(own,
                "SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind) "
                "FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n "
                "FROM jobq.lane_directory d WHERE d.queue = $1 AND d.kind <> ALL ($2::text[]) GROUP BY d.kind) counted WHERE n > 0",
                options_.queue, kinds());
            if (found)
                say("jobs that this worker does not claim are waiting in queue \"" + options_.queue + "\": " + *found);
        } catch (const std::exception &error) {    // if the connection is broken, the next claim reports it
            if (sqlstate(error) == "42501")
                look_at_ = Clock::time_point::max();
        }
    }

    // ---- small pools: see clients/CONTRACT.md

    static constexpr double SHORT_WAIT = 2;    // seconds of a wait that no function can end, or of a wait behind a pooler

    // Makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool.
    void answered(double took)
    {
        if (!pooled_ || took <= 0.25)
            return;
        double limit = std::min({1.0, options_.heartbeat_interval.value_or(4) / 4, options_.heartbeat_timeout.value_or(12) / 12});
        for (const auto &job : held())
            limit = std::min(limit, interval(*job) / 4);
        if (took <= std::max(limit, 0.25))
            return;
        bool begins, first;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            begins = !polls_until_;
            first = !has_polled_;
            has_polled_ = true;
            polls_until_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(about(120000)));    // 60 to 120 s
        }
        if (begins)
            say((first ? "warning: answers take " : "answers take ") + std::to_string(took) + " s behind the connection pooler, whose pool may " +
                "have fewer connections than there are workers: polling instead of waiting");
    }

    bool polls()
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!polls_until_ || Clock::now() < *polls_until_)
                return polls_until_.has_value();
            polls_until_.reset();
        }
        polls_in_a_row_ = 0;
        say("answers are fast again: waiting instead of polling");
        return false;
    }

    void claim(int room)
    {
        look_for_others();
        pqxx::nontransaction own(*claims_);
        const Text timeout = span(options_.heartbeat_timeout);
        const auto begun = Clock::now();
        const pqxx::result rows = execute(own,
            "SELECT id, lease, kind, payload, attempt, progress, metadata, heartbeat_seconds "
            "FROM jobq_claim($1, $2, $3::int, $4::text[], heartbeat_timeout => $5::interval)",
            options_.queue, options_.worker_id, room, kinds(), or_null(timeout));
        answered(seconds_since(begun));
        for (const auto &row : rows)
            start(std::make_shared<Job>(row, conninfo_));
        if (!rows.empty()) {
            polls_in_a_row_ = 0;
            return;
        }
        if (polls()) {
            const double pause = std::min(0.05 * (1 << std::min(polls_in_a_row_++, 10)), 1.0);
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return stopping_.load(); });
            return;
        }
        try {
            execute(own, "CALL jobq_wait($1::text, $2::interval, $3::text[], worker_id => $4::text, batch => $5::int)",
                options_.queue, span(wait_timeout_), kinds(), options_.worker_id, room);
        } catch (const pqxx::sql_error &error) {
            if (error.sqlstate() != "57014")
                throw;
            if (!waits_canceled_)
                say(std::string("the server canceled a wait: ") + error.what() + "The setting statement_timeout of this role or database is " +
                    one(own, "SHOW statement_timeout").value_or("") + ", and wait_timeout is " + span(wait_timeout_) + ".");
            waits_canceled_ = true;
        }
    }

    void start(const std::shared_ptr<Job> &job)
    {
        bool late;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            running_[job->lease] = job;
            late = stopping_;
        }
        if (!late) {
            try {
                std::thread([this, job] {
                    call(*job);
                    ended(*job);
                }).detach();
                return;
            } catch (const std::system_error &error) {
                say_of(*job, std::string("could not be started, and is given back: ") + error.what());
                failed_ = true;
                stop_claims();
            }
        }
        job->reporting = true;
        aside([this, job] {
            report(*job, RELEASE);
            ended(*job);
        });
    }

    void ended(const Job &job)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        running_.erase(job.lease);
        changed_.notify_all();
    }

    // Runs the handler, converts its return value or exception to an outcome, and reports it.
    void call(Job &job)
    {
        std::function<std::optional<Refusal>()> conclusion;
        std::string what = "failure";
        bool for_good = false;
        std::optional<double> retry_in;
        try {
            const Text result = handlers_.at(job.kind)(job);
            what = "result";
            conclusion = [this, &job, result] { return report(job, "SELECT jobq_complete($1, $2, $3::jsonb)", or_null(result)); };
        } catch (const Waiting &) {
        } catch (const Snooze &snooze) {
            what = "snooze";
            const std::string delay = span(snooze.delay);
            conclusion = [this, &job, delay] { return report(job, "SELECT jobq_snooze($1, $3::interval, $2)", delay); };
        } catch (const Stop &stop) {
            if (stop.reason == "cancel")
                conclusion = [this, &job] { return fail(job, Fail("cancelled")); };
            else if (stop.reason == "stopping")
                conclusion = [this, &job] { return report(job, RELEASE); };
        } catch (const Fail &error) {
            for_good = error.final;
            retry_in = error.retry_in;
            conclusion = [this, &job, error] { return fail(job, error); };
        } catch (const std::exception &error) {
            const std::string text = error.what(), state = sqlstate(error);
            conclusion = [this, &job, text, state] { return gives_back(job, state) ? report(job, RELEASE) : fail(job, Fail(text)); };
        } catch (...) {
            conclusion = [this, &job] { return fail(job, Fail("the handler threw something other than a std::exception")); };
        }
        job.connection_.reset();
        if (job.reporting.exchange(true) || job.done)
            return;
        if (job.cancelled() == "lost")
            return say_lost(job);
        const Text progress = job.take_progress();
        if (progress)
            report(job, "SELECT jobq_heartbeat($1, $2, $3::jsonb) IN ('held', 'cancel')", *progress);
        const std::optional<Refusal> refused = conclusion ? conclusion() : std::nullopt;
        if (!refused)
            return;
        const std::string text = "the " + what + " was refused: " + refused->message;
        if (fail(job, Fail(text, retry_in, for_good)) && retry_in)    // the delay may be the reason for the rejection
            fail(job, Fail(text, {}, for_good));
    }

    // ---- reports

    // Maximum number of times that a worker gives a job back because the job's own transaction has collided with another one. The next
    // collision is a failed attempt, so that a job that always collides ends.
    static constexpr int MOST_CONFLICTS = 10;

    // Returns whether the job is released without counting the attempt, because its own transaction ended in 40001 or 40P01.
    bool gives_back(const Job &job, const std::string &state)
    {
        int times;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (conflicts_.size() > 1000)    // removes jobs that other workers have completed
                conflicts_.clear();
            times = ++conflicts_[job.id];
            if ((state != "40001" && state != "40P01") || times > MOST_CONFLICTS) {
                conflicts_.erase(job.id);
                return false;
            }
        }
        say_of(job, "its transaction collided with another one (SQLSTATE " + state + "), so it is given back: " + std::to_string(times) + " of " +
                        std::to_string(MOST_CONFLICTS) + " times");
        return true;
    }

    std::optional<Refusal> fail(Job &job, const Fail &error)
    {
        const std::string message = as_text(error.what());
        say("job " + std::to_string(job.id) + " of kind " + job.kind + ", attempt " + std::to_string(job.attempt) +
            (message == "cancelled" ? ": " : ", has failed: ") + message);
        const auto refused = send_failure(job, message, error);
        if (!refused || (refused->state != "22P05" && refused->state != "22021"))
            return refused;
        // The encoding of the database does not have a character of the text.
        return send_failure(job, as_ascii(message), error);
    }

    std::optional<Refusal> send_failure(Job &job, const std::string &message, const Fail &error)
    {
        const Text retry_in = span(error.retry_in);
        return report(job, "SELECT jobq_fail($1, $2, $3, $4::interval, $5::boolean) IS NOT NULL", message, or_null(retry_in),
            error.final ? "f" : "t");
    }

    // Returns the error with which the server rejected the report, if any.
    template <typename... Values> std::optional<Refusal> report(Job &job, const std::string &statement, const Values &...values)
    {
        std::optional<Refusal> refused;
        int tries = 0;
        const Text state = attempt(
            [&](pqxx::nontransaction &own) -> Text {
                ++tries;
                if (one(own, statement, job.id, job.lease, values...) == Text("t"))
                    return Text("finished");
                // An earlier attempt to report may have succeeded although its answer was lost.
                return one(own, "SELECT jobq_heartbeat($1, $2)", job.id, job.lease);
            },
            &refused);
        if (!state && !refused)
            could_not_report(job);
        // "gone" also means success if the queue keeps no finished jobs
        else if (state && *state != "finished" && !(*state == "gone" && tries > 1))
            say_lost(job);
        else if (state && statement == RELEASE)
            say_of(job, "released");
        return refused;
    }

    // ---- heartbeats

    double interval(const Job &job) const
    {
        double shortest = job.heartbeat_seconds;
        if (options_.heartbeat_interval)
            shortest = std::min(shortest, *options_.heartbeat_interval);
        if (options_.heartbeat_timeout)
            shortest = std::min(shortest, *options_.heartbeat_timeout / 3);
        return shortest;
    }

    void heartbeat_all()
    {
        for (double pause = 0.1;; rest(0.05)) {
            try {
                std::vector<std::shared_ptr<Job>> due, reported, progressed;
                for (const auto &job : held()) {
                    if (job->cancelled() == "lost")
                        continue;
                    const double silent = seconds_since(job->beat_at);
                    const bool is_due = silent >= interval(*job);
                    if (job->reporting) {
                        if (is_due)
                            reported.push_back(job);
                        continue;
                    }
                    if (is_due)
                        due.push_back(job);
                    if (is_due || silent > 0.5)
                        progressed.push_back(job);
                }
                // All heartbeats are sent in one call first, so that progress that cannot be sent, perhaps because its shard is
                // down, delays no heartbeat.
                if (!due.empty())
                    beat(due);
                for (const auto &job : reported)
                    beat_briefly(*job);
                for (const auto &job : progressed)
                    if (job->cancelled() != "lost")
                        beat_with_progress(*job);
                pause = 0.1;
            } catch (const Broken &) {
                rest(about(pause));
                pause = std::min(pause * 2, 5.0);
            } catch (const std::exception &error) {
                say(std::string("heartbeats were refused: ") + error.what());
                rest(1);
            }
        }
    }

    // Keeps the lease while the report is sent. The answer is not needed, because the report learns the same. A report whose
    // connection broke may still lock the row of the job, and the heartbeats of other jobs must not wait for this lock.
    void beat_briefly(Job &job)
    {
        job.beat_at = Clock::now();
        try {
            on_beats([&](pqxx::nontransaction &own) {
                return one(own,
                    "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) SELECT jobq_heartbeat($1, $2) FROM briefly",
                    job.id, job.lease);
            });
        } catch (const pqxx::sql_error &error) {
            if (error.sqlstate() != "55P03")
                throw;
        }
    }

    // Sends a heartbeat with progress if the job has new progress.
    void beat_with_progress(Job &job)
    {
        Text progress;
        try {
            // The progress is taken only now, so that a report that is sent earlier includes it.
            const Text state = on_beats([&](pqxx::nontransaction &own) {
                progress = job.take_progress();
                return progress ? one(own, "SELECT jobq_heartbeat($1, $2, $3::jsonb)", job.id, job.lease, *progress) : Text();
            });
            if (state)
                heard(job, *state);
        } catch (const Broken &) {
            if (progress)
                job.keep_progress(progress);
            throw;
        } catch (const std::exception &error) {
            say("progress of job " + std::to_string(job.id) + " was refused: " + error.what());
        }
    }

    void beat(const std::vector<std::shared_ptr<Job>> &jobs)
    {
        std::string ids, leases;
        for (const auto &job : jobs) {
            ids += (ids.empty() ? "{" : ",") + std::to_string(job->id);
            leases += (leases.empty() ? "{" : ",") + std::to_string(job->lease);
        }
        std::vector<std::string> states;    // in the order of the IDs
        on_beats([&](pqxx::nontransaction &own) {
            for (const auto &row : execute(own, "SELECT state FROM jobq_heartbeat_many($1::bigint[], $2::bigint[])", ids + "}", leases + "}"))
                states.emplace_back(row[0].c_str());
            return Text();
        });
        for (size_t place = 0; place < states.size(); ++place)
            heard(*jobs[place], states[place]);
    }

    static void heard(Job &job, const std::string &state)
    {
        job.beat_at = Clock::now();
        if (!job.reporting && state != "held" && state != "finished")
            job.stop(state == "cancel" ? "cancel" : "lost");
    }
};

}    // namespace jobq
