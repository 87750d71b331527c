// jobq by libpq with prepared statements: claim and complete, or both in one call. The queue is made and filled by
// broker_peers.py, in SQL; producers enqueue one at a time for the runs with a kill.

#include "client.h"

#include <libpq-fe.h>

namespace {

struct Result {
    explicit Result(PGresult *result) : result(result, PQclear) {}
    std::unique_ptr<PGresult, decltype(&PQclear)> result;

    PGresult *get() const { return result.get(); }
    const char *text(int row, int column) const { return PQgetvalue(get(), row, column); }
};

class PgWire {
public:
    explicit PgWire(const Options &options) : conn_(PQconnectdb(options.text("conninfo").c_str()), PQfinish) {
        if (PQstatus(conn_.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(conn_.get()));
        PQsetNoticeProcessor(conn_.get(), notice, this);
    }

    int fd() const { return PQsocket(conn_.get()); }

    void prepare(const char *name, const char *text, int parameters) {
        check(Result(PQprepare(conn_.get(), name, text, parameters, nullptr)).get());
    }

    void send(const char *name, const std::vector<std::string> &values) {
        std::vector<const char *> texts;
        for (const std::string &value : values) texts.push_back(value.c_str());
        if (!PQsendQueryPrepared(conn_.get(), name, static_cast<int>(texts.size()), texts.data(), nullptr, nullptr, 0)) lost();
        while (PQflush(conn_.get()) > 0) {
        }
    }

    // Hands over the answer if all of it has come.
    template <class Take>
    void receive(Take take) {
        if (!PQconsumeInput(conn_.get())) lost();
        if (PQisBusy(conn_.get())) return;
        Result answer(PQgetResult(conn_.get()));
        if (!answer.get()) return;
        check(answer.get());
        while (PGresult *more = PQgetResult(conn_.get())) check(Result(more).get());
        if (!warning_.empty()) throw std::runtime_error(warning_);
        take(answer);
    }

    Result run(const char *text) {
        Result answer(PQexec(conn_.get(), text));
        check(answer.get());
        return answer;
    }

private:
    // The server warns of a lease that is lost, and of nothing else here.
    static void notice(void *self, const char *text) { static_cast<PgWire *>(self)->warning_ = text; }

    [[noreturn]] void lost() { throw Gone(PQerrorMessage(conn_.get())); }

    void check(const PGresult *result) {
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return;
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        // No state: the connection is broken. Class 57P: the server is going down.
        if (!state || std::string(state).compare(0, 3, "57P") == 0) throw Gone(PQresultErrorMessage(result));
        throw std::runtime_error(PQresultErrorMessage(result));
    }

    std::unique_ptr<PGconn, decltype(&PQfinish)> conn_;
    std::string warning_;
};

class JobqConsumer final : public Consumer {
public:
    JobqConsumer(const Options &options, Record &record) : Consumer(options, record), pg_(options) {
        std::string batch = std::to_string(batch_);
        pg_.prepare("claim", batch_ == 1 ? "SELECT id, lease, payload FROM jobq_claim('bench')"
                                         : ("SELECT id, lease, payload FROM jobq_claim('bench', batch => " + batch + ")").c_str(), 0);
        pg_.prepare("complete", batch_ == 1 ? "SELECT jobq_complete($1, $2)::int"
                                            : "SELECT count(*) FILTER (WHERE completed) FROM jobq_complete_many($1, $2)", 2);
        pg_.prepare("both", ("SELECT id, lease, payload FROM jobq_complete_and_claim($1::bigint[], $2::bigint[], queue => 'bench'" +
                             (batch_ == 1 ? "" : ", batch => " + batch) + ")").c_str(), 2);
    }
    int fd() const override { return pg_.fd(); }

    void readable() override {
        pg_.receive([this](const Result &answer) {
            std::vector<Job> claimed;
            if (completing_ > 0) {
                if (std::stoi(answer.text(0, 0)) != completing_) throw std::runtime_error("a lease was lost");
            } else {
                for (int row = 0; row < PQntuples(answer.get()); row++) {
                    uint32_t number = number_of(answer.text(row, 2), PQgetlength(answer.get(), row, 2));
                    claimed.push_back({number, std::string(answer.text(row, 0)) + " " + answer.text(row, 1)});
                }
            }
            answered(std::move(claimed));
        });
    }

protected:
    void request(const std::vector<Job> &acknowledge, int claim) override {
        completing_ = 0;
        if (acknowledge.empty()) {
            pg_.send("claim", {});
            return;
        }
        bool arrays = claim > 0 || batch_ > 1;
        std::string ids, leases;
        for (const Job &job : acknowledge) {
            size_t space = job.token.find(' ');
            ids += (ids.empty() ? "" : ",") + job.token.substr(0, space);
            leases += (leases.empty() ? "" : ",") + job.token.substr(space + 1);
        }
        if (arrays) {
            ids = "{" + ids + "}";
            leases = "{" + leases + "}";
        }
        if (claim == 0) completing_ = static_cast<int>(acknowledge.size());
        pg_.send(claim > 0 ? "both" : "complete", {ids, leases});
    }

private:
    PgWire pg_;
    int completing_ = 0;  // so many completions are to be answered, unless a claim goes with them
};

class JobqProducer final : public Producer {
public:
    JobqProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), pg_(options) {
        pg_.prepare("enqueue", "SELECT jobq_enqueue('bench', $1::jsonb)", 1);
    }
    int fd() const override { return pg_.fd(); }

    void readable() override {
        pg_.receive([this](const Result &) { answered(); });
    }

protected:
    void request(const std::vector<uint32_t> &numbers) override {
        if (numbers.size() != 1) throw std::runtime_error("one at a time: enqueue=1");
        pg_.send("enqueue", {payload(numbers[0])});
    }

private:
    PgWire pg_;
};

class Jobq final : public Broker {
public:
    explicit Jobq(const Options &options) : options_(options) {}

    void reset() override { throw std::runtime_error("the queue is made in SQL"); }
    std::unique_ptr<Client> consumer(Record &record, int) override { return std::make_unique<JobqConsumer>(options_, record); }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<JobqProducer>(options_, record, first, last, step);
    }

    // A job whose worker has gone is delivered again when its lease ends.
    std::vector<uint32_t> left() override {
        PgWire pg(options_);
        Result rows = pg.run("SELECT payload FROM jobq.jobs WHERE status IN ('pending', 'scheduled', 'processing')");
        std::vector<uint32_t> numbers;
        for (int row = 0; row < PQntuples(rows.get()); row++) {
            numbers.push_back(number_of(rows.text(row, 0), PQgetlength(rows.get(), row, 0)));
        }
        return numbers;
    }

private:
    const Options options_;
};

}  // namespace

std::unique_ptr<Broker> jobq(const Options &options) { return std::make_unique<Jobq>(options); }
