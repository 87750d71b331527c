// The handlers of the scenarios: see clients/scenarios/README.md. The server parses their JSON, so that no library is needed.
#include "jobq_worker.hpp"

#include <sstream>

namespace {

using jobq::Job;
using jobq::Text;

// Reads the database, and opens a new connection when one breaks.
class Eye {
 public:
    explicit Eye(Job &job) : job_(job) {}

    template <typename... Values>
    Text ask(const std::string &statement, const Values &...values) {
        while (true) {
            try {
                if (!connection_) connection_ = jobq::connect("");
                pqxx::nontransaction own(*connection_);
                return jobq::one(own, statement, values...);
            } catch (const std::exception &) {
                connection_.reset();
                jobq::rest(0.2);
            }
        }
    }

    void tell(const std::string &event) {
        ask("INSERT INTO scenario.events VALUES ($1, $2, $3) RETURNING 1", job_.id, job_.attempt, event);
    }

    bool is_open(const Text &gate) {
        return !gate || ask("SELECT count(*) FROM scenario.gates WHERE name = $1", *gate) != Text("0");
    }

    void await(const Text &gate, bool deaf = false) {
        while (!is_open(gate)) {
            if (deaf)
                jobq::rest(0.1);
            else
                job_.pause(0.1);
        }
    }

    Text of(const std::string &name) { return ask("SELECT $1::jsonb ->> $2", job_.payload, name); }

 private:
    Job &job_;
    std::unique_ptr<pqxx::connection> connection_;
};

void effect(pqxx::work &own, const Job &job, const std::string &name) {
    jobq::execute(own, "INSERT INTO scenario.effects VALUES ($1, $2, $3)", job.id, job.attempt, name);
}

Text deaf(Job &job) {
    Eye eye(job);
    eye.tell("started");
    eye.await(eye.of("gate"), true);
    return job.payload;
}

Text waits(Job &job) {
    Eye eye(job);
    eye.tell("started");
    try {
        eye.await(eye.of("gate"));
    } catch (const jobq::Stop &stop) {
        eye.tell(stop.reason);
        throw;
    }
    return job.payload;
}

Text garbage(Job &job) {
    const Text where = Eye(job).of("in"), refused = "\"\\u0000\"";
    if (where == Text("error")) throw std::runtime_error("bad \xff bytes");
    if (where == Text("result")) return refused;
    job.set_progress(*refused);
    return waits(job);
}

Text transfer(Job &job) {
    deaf(job);
    const Text error = Eye(job).of("error");
    return job.completing([&](pqxx::work &own) {
        effect(own, job, "transfer");
        if (error && job.attempt == 1) throw std::runtime_error(*error);
        return std::string("{\"moved\": true}");
    });
}

Text steps(Job &job) {
    Eye eye(job);
    eye.tell("started");
    const Text before = eye.of("before"), gate = eye.of("gate");
    std::istringstream names(std::regex_replace(*eye.of("names"), std::regex("[\\[\\]\",]"), ""));
    std::string results, name;
    while (names >> name) {
        if (Text(name) == before) eye.await(gate);
        results += (results.empty() ? "[" : ", ") + job.step(name, [&](pqxx::work &own) {
            effect(own, job, name);
            return "{\"name\": \"" + name + "\"}";
        });
    }
    return results + "]";
}

void add_handlers(jobq::Worker &worker) {
    worker.handle("echo", [](Job &job) { return Text(job.payload); });
    worker.handle("fail", [](Job &job) {
        Eye eye(job);
        if (job.attempt <= std::stoi(*eye.of("times"))) throw std::runtime_error(*eye.of("message"));
        return Text("{\"attempt\": " + std::to_string(job.attempt) + "}");
    });
    worker.handle("reject", [](Job &job) -> Text {
        Eye eye(job);
        const Text retry_in = eye.of("retry_in");
        throw jobq::Fail(*eye.of("message"), retry_in ? std::optional<double>(std::stod(*retry_in)) : std::nullopt,
                         !retry_in);
    });
    worker.handle("snooze", [](Job &job) {
        if (job.progress) return Text("{\"snoozed\": true}");
        job.set_progress("{\"snoozed\": true}");
        throw jobq::Snooze{std::stod(*Eye(job).of("delay"))};
    });
    worker.handle("wait", waits);
    worker.handle("deaf", deaf);
    worker.handle("sleep", [](Job &job) {
        Eye eye(job);
        const double seconds = std::stod(*eye.of("seconds"));
        eye.tell("started");
        jobq::rest(seconds);
        return Text("{}");
    });
    worker.handle("progress", [](Job &job) {
        Eye eye(job);
        eye.tell("started");
        const int steps = std::stoi(*eye.of("steps"));
        for (int step = 1; step <= steps; ++step) job.set_progress("{\"step\": " + std::to_string(step) + "}");
        eye.await(eye.of("gate"));
        return Text("{\"steps\": " + std::to_string(steps) + "}");
    });
    worker.handle("transfer", transfer);
    worker.handle("steps", steps);
    worker.handle("garbage", garbage);
    worker.handle("poison", [](Job &job) {
        Eye(job).tell("started");
        kill(getpid(), SIGKILL);
        return Text();
    });
}

}  // namespace

int main() {
    int status = 1;
    try {
        jobq::Worker worker(jobq::Options::from_environment());
        add_handlers(worker);
        status = worker.run();
        std::cerr.flush();
        _exit(status);  // before the worker is destroyed, because its threads still use it
    } catch (const std::exception &error) {
        std::cerr << "scenario: " << error.what() << std::endl;
    }
    _exit(status);
}
