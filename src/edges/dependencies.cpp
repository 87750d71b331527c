// See dependencies.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "edges/dependencies.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "row/jobs_table.h"
#include "row/owner.h"

namespace jobq {

namespace {

Statement add = {
    R"(INSERT INTO jobq.edges (job_id, kind, target, on_failure, active)
       SELECT u.job_id, 'depends', u.target, u.on_failure, u.active
       FROM unnest($1, $2, $3, $4) AS u(job_id, target, on_failure, active))",
    {INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID, BOOLARRAYOID}};

// Locks a job against deletion. Waits only for sessions that are deleting the job. Returns no row if the job no longer
// exists.
Statement hold = {"SELECT j.id FROM jobq.jobs j WHERE j.id = $1 FOR KEY SHARE", {INT8OID}};

Statement find_result = {"SELECT 1 FROM jobq.deleted_dependencies g WHERE g.job_id = $1 LIMIT 1 FOR KEY SHARE",
                         {INT8OID}};

Statement get_results = {
    R"(SELECT d.target, coalesce(j.status, g.status), CASE WHEN j.id IS NULL THEN g.result ELSE j.result END
       FROM jobq.edges d
            LEFT JOIN LATERAL (SELECT l.id, l.status, l.result FROM jobq.jobs l WHERE l.id = ANY (ARRAY[d.target])) j
                 ON true
            LEFT JOIN LATERAL (SELECT 'completed'::jobq.job_status AS status, r.result
                               FROM jobq.deleted_dependencies r WHERE r.job_id = ANY (ARRAY[d.target]) LIMIT 1) g
                 ON true
       WHERE d.job_id = $1 AND d.kind = 'depends'
       ORDER BY d.target)",
    {INT8OID}};

// Selects jobs that are connected to a job by dependencies. UNION finds each job only once, and LIMIT ends the search.
Statement get_graph = {
    R"(WITH RECURSIVE connected(id) AS (
           SELECT j.id FROM jobq.jobs j WHERE j.id = $1
           UNION
           SELECT n.id FROM connected c,
                       LATERAL (SELECT d.target AS id FROM jobq.edges d WHERE d.kind = 'depends' AND d.job_id = c.id
                                UNION ALL
                                SELECT d.job_id FROM jobq.edges d WHERE d.kind = 'depends' AND d.target = c.id
                                ORDER BY 1) n
           WHERE $3 IS NULL OR NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = n.id AND )" IN_SCOPE(
        "$3") R"( IS NOT TRUE)),
            found AS MATERIALIZED (SELECT c.id, row_number() OVER () AS n FROM connected c LIMIT $2)
       SELECT f.id, j.kind, j.status::text, f.n
       FROM found f LEFT JOIN jobq.jobs j ON j.id = f.id
       ORDER BY f.id)",
    {INT8OID, INT8OID, TEXTARRAYOID},
    Planning::Free};

Statement get_edges = {
    R"(SELECT d.target, d.job_id FROM jobq.edges d
       WHERE d.kind = 'depends' AND d.job_id = ANY ($1) AND d.target = ANY ($1) ORDER BY d.target, d.job_id)",
    {INT8ARRAYOID},
    Planning::Free};

[[noreturn]] void unknown_dependency(int64 id) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"depends_on\" names job %lld, which does not exist", static_cast<long long>(id)),
                    errhint("Specify only jobs that have been committed or that the same transaction has enqueued.")));
    pg_unreachable();
}

// Raises the error for a dependency whose id is not lower than the id of the new job. Most likely, no job with
// the id of the dependency exists.
[[noreturn]] void not_older(int64 id, int64 job, const QueueScope *scope) {
    if (!home_is_in_scope(scope, id) || run(hold, Params().add(Int64GetDatum(id))).size() == 0) unknown_dependency(id);
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"depends_on\" names job %lld, which is not older than the new job %lld",
                           static_cast<long long>(id), static_cast<long long>(job)),
                    errhint("Specify only jobs with lower ids. This rule prevents cycles.")));
    pg_unreachable();
}

// All edges of all dependents, as one array per column.
struct EdgeColumns {
    Datum *jobs, *depends_on, *on_failure, *active;
    bool *not_active;
    int count;
};

int64 edge_count(const NewDependent *dependents, int count) {
    int64 edges = 0;
    for (int i = 0; i < count; i++) edges += dependents[i].count;
    if (edges > core::kMaxEnqueue)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("too many dependencies in one call: %lld", static_cast<long long>(edges)),
                        errhint("At most %d dependencies are allowed in one call.", core::kMaxEnqueue)));
    return edges;
}

EdgeColumns columns_of(const NewDependent *dependents, int count, const QueueScope *scope, int *number) {
    const int64 room = edge_count(dependents, count);
    EdgeColumns columns = {.jobs = allocate_array<Datum>(room),
                           .depends_on = allocate_array<Datum>(room),
                           .on_failure = allocate_array<Datum>(room),
                           .active = allocate_array<Datum>(room),
                           .not_active = allocate_array<bool>(room),
                           .count = 0};
    const Datum cancel = CStringGetTextDatum("cancel"), run_anyway = CStringGetTextDatum("run");
    for (int i = 0; i < count; i++) {
        const NewDependent &one = dependents[i];
        *number = one.number;
        for (int k = 0; k < one.count; k++) {
            if (one.depends_on[k] >= one.job) not_older(one.depends_on[k], one.job, scope);
            const int at = columns.count++;
            columns.jobs[at] = Int64GetDatum(one.job);
            columns.depends_on[at] = Int64GetDatum(one.depends_on[k]);
            columns.on_failure[at] = one.on_failure == core::OnDependencyFailure::Run ? run_anyway : cancel;
            columns.active[at] = BoolGetDatum(true);
            // Activates only the edge to the dependency with the highest id, because the other dependencies will most
            // likely finish earlier.
            columns.not_active[at] = k < one.count - 1;
        }
    }
    return columns;
}

// Returns the `number` of the dependent that names the job as a dependency.
int number_of(const NewDependent *dependents, int count, int64 id) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < dependents[i].count; k++)
            if (dependents[i].depends_on[k] == id) return dependents[i].number;
    return 0;
}

enum class Existence { Exists, Missing, Doubtful };

// Returns whether the job exists and is in scope. A dead letter must be in scope in its home queue, because the job can
// be moved back and complete there, and its result must be visible only to callers that are allowed to use that queue.
Existence existence_of(JobsTable *jobs, int64 id, const QueueScope *scope) {
    if (!find_job(jobs, id) || !home_is_in_scope(scope, *jobs)) return Existence::Missing;
    return change_of_row(jobs->table) == Changing::No ? Existence::Exists : Existence::Doubtful;
}

// Checks that the dependencies exist. Their edges have already been added, so a session that begins to delete one of
// these jobs now finds the edges. A session that is already deleting a job might have looked for edges before these
// edges were added. Therefore, the function locks the jobs that another session might be deleting.
void check_existence(const NewDependent *dependents, int count, const EdgeColumns &columns, const QueueScope *scope,
                     int *number) {
    Datum *doubtful = allocate_array<Datum>(columns.count);
    int doubtful_count = 0;
    int64 missing = 0, last = 0;
    bool any_missing = false;
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < columns.count && !any_missing; i++) {
        const int64 id = DatumGetInt64(columns.depends_on[i]);
        // Checks each dependency only once, because thousands of jobs might depend on the same job.
        if (i > 0 && id == last) continue;
        last = id;
        const Existence found = existence_of(&jobs, id, scope);
        if (found == Existence::Doubtful) doubtful[doubtful_count++] = columns.depends_on[i];
        any_missing = found == Existence::Missing;
        if (any_missing) missing = id;
    }
    close_jobs(&jobs);
    for (int i = 0; i < doubtful_count && !any_missing; i++) {
        any_missing = run(hold, Params().add(doubtful[i])).size() == 0;
        if (any_missing) missing = DatumGetInt64(doubtful[i]);
    }
    if (!any_missing) return;
    *number = number_of(dependents, count, missing);
    unknown_dependency(missing);
}

}  // namespace

void add_dependencies(const NewDependent *dependents, int count, const QueueScope *scope, int *number) {
    if (count == 0) return;
    with_owner_spi([&] {
        const EdgeColumns columns = columns_of(dependents, count, scope, number);
        run(add, Params()
                     .add(array_of(columns.jobs, columns.count, INT8OID))
                     .add(array_of(columns.depends_on, columns.count, INT8OID))
                     .add(array_of(columns.on_failure, columns.count, TEXTOID))
                     .add(array_of(columns.active, columns.not_active, columns.count, BOOLOID)));
        check_existence(dependents, count, columns, scope, number);
    });
    // Makes the promoter check each dependent, because a dependency without an active edge might have failed before the
    // edges were added. If a dependent has only one dependency, its edge is active, so it is enough to publish the
    // dependency.
    for (int i = 0; i < count; i++)
        log_unblocked(Blocker::Edge, dependents[i].count == 1 ? dependents[i].depends_on[0] : -dependents[i].job);
}

void require_jobs_of_edge(int64 job, int64 depends_on) {
    const auto missing = [](const char *column, int64 id, const char *why) {
        ereport(ERROR,
                (errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
                 errmsg("job %lld in column \"%s\" of jobq.edges does not exist", static_cast<long long>(id), column),
                 errdetail("%s", why),
                 errhint("Insert the job first, or use jobq_enqueue(), which inserts the job and its edges.")));
    };
    if (run(hold, Params().add(Int64GetDatum(job))).size() == 0)
        missing("job_id", job, "A job that is inserted after its edges would not wait.");
    const Params dependency = Params().add(Int64GetDatum(depends_on));
    if (run(hold, dependency).size() == 0 && run(find_result, dependency).size() == 0)
        missing("target", depends_on, "A job that does not exist would count as deleted before it completed.");
}

Rows read_dependency_results(int64 job) { return read(get_results, Params().add(Int64GetDatum(job))); }

Rows read_graph(int64 job, const QueueScope *scope, int64 max_jobs) {
    return read(
        get_graph,
        Params().add(Int64GetDatum(job)).add(Int64GetDatum(max_jobs)).add_if(scope != nullptr, scope_array(scope)));
}

Rows read_edges(Datum ids) { return read(get_edges, Params().add(ids)); }

}  // namespace jobq
