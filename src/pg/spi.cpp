// See spi.h.
//
// A claim's plan must never depend on statistics: tables analysed when empty, and generic plans made while a table
// was small, have stopped whole queues in production. So a Fixed statement is planned with the planner's switches set
// our way, whenever the plan cache plans it again: invalidation, another search_path, plan_cache_mode. A planner hook
// does it, so that nothing else ever runs under these switches, triggers of other people's least of all.
//
// No statement of ours is compiled (JIT), a Free one neither: the planner's guess of the cost of a search through a
// large table would have it spend a second on what takes 50 ms.
#include "pg/pg.h"

#include "pg/spi.h"

extern "C" {
#include "jit/jit.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
}

namespace jobq {

namespace {

struct PlannerSwitches {
    bool seqscan, bitmapscan, sort, hashjoin, mergejoin, material, memoize, indexscan, indexonlyscan, tidscan, nestloop,
        jit;
    int parallel;
};

constexpr PlannerSwitches kFixed = {false, false, false, false, false, false, false, true, true, true, true, false, 0};

PlannerSwitches current_switches() {
    return {enable_seqscan,
            enable_bitmapscan,
            enable_sort,
            enable_hashjoin,
            enable_mergejoin,
            enable_material,
            enable_memoize,
            enable_indexscan,
            enable_indexonlyscan,
            enable_tidscan,
            enable_nestloop,
            jit_enabled,
            max_parallel_workers_per_gather};
}

void set_switches(const PlannerSwitches &to) {
    enable_seqscan = to.seqscan;
    enable_bitmapscan = to.bitmapscan;
    enable_sort = to.sort;
    enable_hashjoin = to.hashjoin;
    enable_mergejoin = to.mergejoin;
    enable_material = to.material;
    enable_memoize = to.memoize;
    enable_indexscan = to.indexscan;
    enable_indexonlyscan = to.indexonlyscan;
    enable_tidscan = to.tidscan;
    enable_nestloop = to.nestloop;
    jit_enabled = to.jit;
    max_parallel_workers_per_gather = to.parallel;
}

void prepare(Statement &statement) {
    int count = 0;
    while (count < kMaxParameters && OidIsValid(statement.types[count])) count++;
    SPIPlanPtr plan = SPI_prepare_cursor(statement.sql, count, statement.types, CURSOR_OPT_GENERIC_PLAN);
    if (plan == nullptr) elog(ERROR, "jobq: SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    SPI_keepplan(plan);
    statement.plan = plan;
}

void execute(Statement &statement, const Params &params, bool read_only, Snapshot snapshot) {
    if (statement.plan == nullptr) prepare(statement);
    const int code = snapshot != nullptr
                         ? SPI_execute_snapshot(statement.plan, params.values(), params.nulls(), snapshot,
                                                InvalidSnapshot, true, true, 0)
                         : SPI_execute_plan(statement.plan, params.values(), params.nulls(), read_only, 0);
    if (code < 0) elog(ERROR, "jobq: SPI failed: %s", SPI_result_code_string(code));
}

// How deep in triggers the innermost statement of ours was started; -1: none runs.
int own_depth = -1;

int trigger_depth() { return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, Datum(0))); }

// How the innermost statement of ours wants to be planned.
Planning own_planning = Planning::Free;
planner_hook_type next_planner = nullptr;

PlannedStmt *plan_next(Query *query, const char *text, int cursor_options, ParamListInfo params) {
    return next_planner != nullptr ? next_planner(query, text, cursor_options, params)
                                   : standard_planner(query, text, cursor_options, params);
}

PlannedStmt *plan_fixed(Query *query, const char *text, int cursor_options, ParamListInfo params) {
    if (own_planning != Planning::Fixed || !own_statement()) return plan_next(query, text, cursor_options, params);
    const PlannerSwitches saved = current_switches();
    PlannedStmt *volatile planned = nullptr;
    PG_TRY();
    {
        set_switches(kFixed);
        planned = plan_next(query, text, cursor_options, params);
    }
    PG_FINALLY();
    { set_switches(saved); }
    PG_END_TRY();
    return planned;
}

PlannedStmt *plan_uncompiled(Query *query, const char *text, int cursor_options, ParamListInfo params) {
    PlannedStmt *planned = plan_fixed(query, text, cursor_options, params);
    if (own_statement()) planned->jitFlags = PGJIT_NONE;
    return planned;
}

void restore(int outer_depth, Planning outer_planning) {
    own_depth = outer_depth;
    own_planning = outer_planning;
}

Rows execute_as_planned(Statement &statement, const Params &params, bool read_only, Snapshot snapshot) {
    const int outer_depth = own_depth;
    const Planning outer_planning = own_planning;
    PG_TRY();
    {
        own_depth = trigger_depth();
        own_planning = statement.planning;
        execute(statement, params, read_only, snapshot);
    }
    PG_CATCH();
    {
        restore(outer_depth, outer_planning);
        PG_RE_THROW();
    }
    PG_END_TRY();
    restore(outer_depth, outer_planning);
    return {SPI_tuptable, SPI_tuptable != nullptr ? SPI_tuptable->numvals : 0};
}

}  // namespace

int enter_own_statement() {
    const int outer = own_depth;
    own_depth = trigger_depth();
    return outer;
}

void leave_own_statement(int outer) { own_depth = outer; }

bool own_statement() { return own_depth >= 0 && own_depth == trigger_depth(); }

void install_planner_hook() {
    next_planner = planner_hook;
    planner_hook = plan_uncompiled;
}

Rows run(Statement &statement, const Params &params) { return execute_as_planned(statement, params, false, nullptr); }

Rows read(Statement &statement, const Params &params, Snapshot snapshot) {
    return execute_as_planned(statement, params, true, snapshot);
}

void run_text(const char *sql) {
    const int code = SPI_execute(sql, false, 0);
    if (code < 0) elog(ERROR, "jobq: SPI failed: %s", SPI_result_code_string(code));
}

}  // namespace jobq
