// Queues in PostgreSQL through libpq, with prepared statements from the options NAME_sql: claim (returns ID, lease, and payload
// of each job), complete ($1 ID, $2 lease, or arrays for a batch; returns a count, or the number of rows is the count), both
// (completes and claims), left (returns payloads), enqueue ($1 payload). broker_peers.py defines the statements, and creates and
// fills the queue.

#include "client.h"

#include <libpq-fe.h>

namespace {

struct Result {
    explicit Result(PGresult *result) : result(result, PQclear) {}
    std::unique_ptr<PGresult, decltype(&PQclear)> result;

    PGresult *get() const { return result.get(); }
    const char *text(int row, int column) const { return PQgetvalue(get(), row, column); }
    // Number of rows: the value in the answer, or the number of rows that were changed.
    int count() const { return std::stoi(PQresultStatus(get()) == PGRES_TUPLES_OK ? text(0, 0) : PQcmdTuples(get())); }
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

    // Passes on the answer if all of it has arrived.
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
    // The server warns about lost leases, and about nothing else here.
    static void notice(void *self, const char *text) { static_cast<PgWire *>(self)->warning_ = text; }

    [[noreturn]] void lost() { throw Gone(PQerrorMessage(conn_.get())); }

    void check(const PGresult *result) {
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return;
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        // No SQLSTATE: the connection is broken. Class 57P: the server is shutting down.
        if (!state || std::string(state).compare(0, 3, "57P") == 0) throw Gone(PQresultErrorMessage(result));
        throw std::runtime_error(PQresultErrorMessage(result));
    }

    std::unique_ptr<PGconn, decltype(&PQfinish)> conn_;
    std::string warning_;
};

class SqlConsumer final : public Consumer {
public:
    SqlConsumer(const Options &options, Record &record) : Consumer(options, record), pg_(options) {
        pg_.prepare("claim", options.text("claim_sql").c_str(), 0);
        pg_.prepare("complete", options.text("complete_sql").c_str(), 2);
        if (options.number("fused", 0) != 0) pg_.prepare("both", options.text("both_sql").c_str(), 2);
    }
    int fd() const override { return pg_.fd(); }

    void readable() override {
        pg_.receive([this](const Result &answer) {
            std::vector<Job> claimed;
            if (completing_ > 0) {
                if (answer.count() != completing_) throw std::runtime_error("a lease was lost");
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
    int completing_ = 0;  // number of completions in the next answer, unless they are sent together with a claim
};

class SqlProducer final : public Producer {
public:
    SqlProducer(const Options &options, Record &record, uint32_t first, uint32_t last, uint32_t step)
        : Producer(options, record, first, last, step), pg_(options) {
        pg_.prepare("enqueue", options.text("enqueue_sql").c_str(), 1);
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

class Postgres final : public Broker {
public:
    explicit Postgres(const Options &options) : options_(options) {}

    void reset() override { throw std::runtime_error("the queue is made in SQL"); }
    std::unique_ptr<Client> consumer(Record &record, int) override { return std::make_unique<SqlConsumer>(options_, record); }
    std::unique_ptr<Client> producer(Record &record, uint32_t first, uint32_t last, uint32_t step) override {
        return std::make_unique<SqlProducer>(options_, record, first, last, step);
    }

    // The job of a client that has disconnected is delivered again when its lease expires.
    std::vector<uint32_t> left() override {
        PgWire pg(options_);
        Result rows = pg.run(options_.text("left_sql").c_str());
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

std::unique_ptr<Broker> postgres(const Options &options) { return std::make_unique<Postgres>(options); }
