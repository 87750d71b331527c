// The SQL functions jobq_dependency_results and jobq_dot.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "edges/dependencies.h"
#include "edges/dependency_policy.h"
#include "queues/scope.h"
#include "row/owner.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

constexpr int kMaxDotJobs = 100000;

void append_label(StringInfo text, std::string_view label) {
    auto *escaped = static_cast<char *>(palloc(label.size() * 2 + 1));
    appendBinaryStringInfo(text, escaped, static_cast<int>(core::write_dot_label(label, escaped)));
    pfree(escaped);
}

// Appends a node whose label contains the id, the kind (unless it is empty), and the status, each on a separate line.
void append_job(StringInfo text, const Row &row) {
    const auto id = static_cast<long long>(row.int64_at(1));
    appendStringInfo(text, "  %lld [label=\"%lld", id, id);
    if (!row.is_null(2) && !row.text_at(2).empty()) {
        appendStringInfoString(text, "\\n");
        append_label(text, row.text_at(2));
    }
    appendStringInfoString(text, "\\n");
    if (row.is_null(3))
        appendStringInfoString(text, "deleted");
    else
        append_label(text, row.text_at(3));
    appendStringInfoString(text, "\"];\n");
}

// Returns the graph of a job in Graphviz's language, or nullptr if the job does not exist.
char *dot_of(int64 job, const QueueScope *scope, int32 max_jobs) {
    // Reads one job more than max_jobs, to determine whether the graph has more than max_jobs jobs.
    const Rows jobs = read_graph(job, scope, static_cast<int64>(max_jobs) + 1);
    if (jobs.size() == 0) return nullptr;
    const bool cut = jobs.size() > static_cast<uint64>(max_jobs);
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfoString(&text, "digraph jobs {\n");
    if (cut)
        appendStringInfo(&text, "  label=\"part of a larger graph: %d jobs near job %lld\";\n", max_jobs,
                         static_cast<long long>(job));
    appendStringInfoString(&text, "  node [shape=box];\n");
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * jobs.size()));
    int count = 0;
    for (uint64 i = 0; i < jobs.size(); i++) {
        if (jobs[i].int64_at(4) > max_jobs) continue;
        append_job(&text, jobs[i]);
        ids[count++] = jobs[i].get(1);
    }
    const Rows edges = read_edges(array_of(ids, count, INT8OID));
    for (uint64 i = 0; i < edges.size(); i++)
        appendStringInfo(&text, "  %lld -> %lld;\n", static_cast<long long>(edges[i].int64_at(1)),
                         static_cast<long long>(edges[i].int64_at(2)));
    appendStringInfoString(&text, "}\n");
    return text.data;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_dependency_results);
PGDLLEXPORT Datum jobq_dependency_results(PG_FUNCTION_ARGS) {
    const int64 job = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        // The dependencies need not be in scope, because the producer that added them gave the job access to their
        // results.
        if (job_is_in_scope(scope, job)) results.rows(read_dependency_results(job));
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_dot);
PGDLLEXPORT Datum jobq_dot(PG_FUNCTION_ARGS) {
    const int64 job = require_int64(fcinfo, 0, "job_id");
    require(fcinfo, 1, "max_jobs");
    const int32 max_jobs = check_positive(PG_GETARG_INT32(1), "max_jobs");
    if (max_jobs > kMaxDotJobs)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"max_jobs\" is too large: %d", max_jobs),
                 errhint("At most %d jobs are allowed.", kMaxDotJobs)));
    MemoryContext context = CurrentMemoryContext;
    const QueueScope *scope = scope_of(fcinfo);
    text *graph = nullptr;
    with_owner_spi([&] {
        const char *dot = job_is_in_scope(scope, job) ? dot_of(job, scope, max_jobs) : nullptr;
        if (dot == nullptr) return;
        MemoryContext inner = MemoryContextSwitchTo(context);
        graph = cstring_to_text(dot);
        MemoryContextSwitchTo(inner);
    });
    if (graph == nullptr) PG_RETURN_NULL();
    PG_RETURN_TEXT_P(graph);
}

}  // extern "C"

}  // namespace jobq
