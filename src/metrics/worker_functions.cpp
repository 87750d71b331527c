// The SQL function jobq_workers, which the view jobq.workers calls.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "metrics/connected_workers.h"
#include "queues/scope.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr const char *kStateNames[] = {"waiting", "busy", "idle"};

Datum text_datum(std::string_view value) { return PointerGetDatum(make_text(value)); }

// Returns the names as text[], without the queues that are out of scope.
Datum names_in_scope(const Names &names, const QueueScope *scope) {
    ArrayColumn column(names.count);
    for (int i = 0; i < names.count; i++)
        if (is_in_scope(scope, names.items[i])) column.add(text_datum(names.items[i]));
    return column.array(TEXTOID);
}

bool is_seen(const ConnectedWorker &worker, const QueueScope *scope) {
    return scope == nullptr || std::any_of(scope->queues, scope->queues + scope->count,
                                           [&worker](std::string_view queue) { return serves(worker, queue); });
}

void add_worker(const ConnectedWorker &worker, const QueueScope *scope, ResultSet *results) {
    constexpr int kColumns = 11;
    const WorkerInfo &info = worker.info;
    Datum values[kColumns] = {};
    bool nulls[kColumns] = {};
    values[0] = text_datum(info.worker_id);
    values[1] = names_in_scope(info.queues, scope);
    nulls[2] = info.kinds.items == nullptr;
    if (!nulls[2]) values[2] = names_in_scope(info.kinds, nullptr);
    nulls[3] = info.slots == 0;
    values[3] = Int32GetDatum(info.slots);
    nulls[4] = info.client.data() == nullptr;
    if (!nulls[4]) values[4] = text_datum(info.client);
    values[5] = TimestampTzGetDatum(worker.started_at);
    values[6] = CStringGetTextDatum(kStateNames[static_cast<int>(worker.state)]);
    values[7] = Int64GetDatum(worker.running);
    nulls[8] = worker.last_claim == DT_NOBEGIN;
    values[8] = TimestampTzGetDatum(worker.last_claim);
    values[9] = TimestampTzGetDatum(worker.last_seen);
    nulls[10] = info.others == nullptr;
    values[10] = PointerGetDatum(info.others);
    results->row(values, nulls);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_workers);
PGDLLEXPORT Datum jobq_workers(PG_FUNCTION_ARGS) {
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        const ConnectedWorkers workers = connected_workers();
        for (int i = 0; i < workers.count; i++)
            if (is_seen(workers.items[i], scope)) add_worker(workers.items[i], scope, &results);
    });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
