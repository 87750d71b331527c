// See spi.h.
//
// The plan of a claim must never depend on statistics. In production, whole queues have come to a halt because a table
// had been analyzed while it was empty, or because a generic plan had been made while a table was small. The reason is
// that if the table is small or a column has few distinct values, the planner can consider an index with the wrong
// first column as cheap as the right index. Each execution of the plan then reads the whole wrong index.
//
// Therefore, a Fixed statement is planned with fixed values of enable_seqscan and similar settings, as if each table
// were large and had no statistics. A planner hook sets these values. It also applies when the plan cache replans the
// statement because of an invalidation, another search_path, or plan_cache_mode, and it does not affect other
// statements, such as the statements of a user's trigger.
//
// JIT compilation is disabled for all statements of jobq, including Free statements, because the planner overestimates
// the cost of a search in a large table, and would spend a second on compiling a query that takes 50 ms.
#include "compat/pg.h"

#include "compat/followers.h"
#include "compat/spi.h"

#include <type_traits>

extern "C" {
#include "jit/jit.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "utils/selfuncs.h"
}

namespace jobq {

namespace {

// The planner settings that the planning of a Fixed statement replaces, with their values during this time.
constexpr struct {
    bool *setting;
    bool fixed;
} kSwitches[] = {{&enable_seqscan, false},  {&enable_bitmapscan, false},   {&enable_sort, false},
                 {&enable_hashjoin, false}, {&enable_mergejoin, false},    {&enable_material, false},
                 {&enable_memoize, false},  {&jit_enabled, false},         {&enable_indexscan, true},
                 {&enable_tidscan, true},   {&enable_indexonlyscan, true}, {&enable_nestloop, true}};
constexpr int kSwitchCount = lengthof(kSwitches);

struct SavedSettings {
    bool switches[kSwitchCount];
    int parallel;
};

// The sizes of tables and indexes that the planner assumes for a Fixed statement.
constexpr double kRows = 1e6;
constexpr BlockNumber kPages = 20000, kIndexPages = 4000;
constexpr int kTreeHeight = 2;
bool plans_fixed = false;

void prepare(Statement &statement) {
    int count = 0;
    while (count < kMaxParameters && OidIsValid(statement.types[count])) count++;
    SPIPlanPtr plan = SPI_prepare_cursor(statement.sql, count, statement.types, CURSOR_OPT_GENERIC_PLAN);
    if (plan == nullptr) elog(ERROR, "jobq: SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    SPI_keepplan(plan);
    statement.plan = plan;
}

// Returns the text that the server passes to hooks when it plans and runs the statement. This text is the plan's own
// copy, so its address identifies the statement.
const char *text_of(const Statement &statement) {
    return static_cast<const CachedPlanSource *>(linitial(SPI_plan_get_plan_sources(statement.plan)))->query_string;
}

void execute(Statement &statement, const Params &params, bool read_only, Snapshot snapshot) {
    const int code = snapshot != nullptr
                         ? SPI_execute_snapshot(statement.plan, params.values(), params.nulls(), snapshot,
                                                InvalidSnapshot, true, true, 0)
                         : SPI_execute_plan(statement.plan, params.values(), params.nulls(), read_only, 0);
    if (code < 0) elog(ERROR, "jobq: SPI failed: %s", SPI_result_code_string(code));
}

// The innermost statement of jobq that is currently running, with its text and, once its execution has started, the
// memory context of the execution. The text and the memory context identify the statement, because triggers, index
// expressions, and constraints can execute other statements while this statement runs.
struct OwnQuery {
    const char *text;
    MemoryContext memory;
    Planning planning;
};
OwnQuery own = {nullptr, nullptr, Planning::Free};

planner_hook_type next_planner = nullptr;
std::remove_reference_t<decltype(table_hook())> next_table_hook = nullptr;
get_relation_stats_hook_type next_stats = nullptr;
ExecutorStart_hook_type next_start = nullptr;

bool is_own_text(const char *text) { return own.text != nullptr && text == own.text; }

// Calls the planner hook of another extension, or else the standard planner. PostgreSQL 19 and later also pass the
// state of an EXPLAIN to the planner.
template <typename... Explain>
PlannedStmt *plan_next(Query *query, const char *text, int cursor_options, ParamListInfo params, Explain... explain) {
    return next_planner != nullptr ? next_planner(query, text, cursor_options, params, explain...)
                                   : standard_planner(query, text, cursor_options, params, explain...);
}

SavedSettings plan_fixed_from_here() {
    SavedSettings saved;
    for (int i = 0; i < kSwitchCount; i++) {
        saved.switches[i] = *kSwitches[i].setting;
        *kSwitches[i].setting = kSwitches[i].fixed;
    }
    saved.parallel = max_parallel_workers_per_gather;
    max_parallel_workers_per_gather = 0;
    plans_fixed = true;
    return saved;
}

void plan_as_before(const SavedSettings &saved) {
    plans_fixed = false;
    for (int i = 0; i < kSwitchCount; i++) *kSwitches[i].setting = saved.switches[i];
    max_parallel_workers_per_gather = saved.parallel;
}

// Plans the query with the fixed planner settings.
template <typename... Explain>
pg_noinline PlannedStmt *plan_switched(Query *query, const char *text, int cursor_options, ParamListInfo params,
                                       Explain... explain) {
    PlannedStmt *volatile planned = nullptr;
    const SavedSettings saved = plan_fixed_from_here();
    PG_TRY();
    { planned = plan_next(query, text, cursor_options, params, explain...); }
    PG_CATCH();
    {
        plan_as_before(saved);
        PG_RE_THROW();
    }
    PG_END_TRY();
    plan_as_before(saved);
    return planned;
}

// The hook's arguments depend on the server version.
[[maybe_unused]] RelOptInfo *table_in(PlannerInfo *, Oid, bool, RelOptInfo *table) { return table; }
[[maybe_unused]] RelOptInfo *table_in(PlannerInfo *, RelOptInfo *table, RangeTblEntry *entry) {
    return entry->rtekind == RTE_RELATION ? table : nullptr;
}

// Lets a Fixed statement be planned as for a large table. Used as table_hook().
template <typename... Arguments>
void take_for_large(Arguments... arguments) {
    if (next_table_hook != nullptr) next_table_hook(arguments...);
    RelOptInfo *table = table_in(arguments...);
    if (!plans_fixed || table == nullptr) return;
    table->tuples = kRows;
    table->pages = kPages;
    table->allvisfrac = 0;
    table->statlist = NIL;
    ListCell *cell;
    foreach (cell, table->indexlist) {
        auto *index = static_cast<IndexOptInfo *>(lfirst(cell));
        index->tuples = kRows;
        index->pages = kIndexPages;
        index->tree_height = kTreeHeight;
    }
}

// Hides the statistics of a column while a Fixed statement is planned. Used as get_relation_stats_hook. Returns true,
// so that the planner uses the statistics in `data`, which are empty.
bool hide_statistics(PlannerInfo *root, RangeTblEntry *entry, AttrNumber column, VariableStatData *data) {
    if (!plans_fixed) return next_stats != nullptr && next_stats(root, entry, column, data);
    // Sets these fields because the cost estimate for BRIN indexes calls this hook without initializing them.
    data->statsTuple = nullptr;
    data->freefunc = nullptr;
    return true;
}

template <typename... Explain>
PlannedStmt *plan_fixed(Query *query, const char *text, int cursor_options, ParamListInfo params, Explain... explain) {
    if (own.planning != Planning::Fixed || !is_own_text(text))
        return plan_next(query, text, cursor_options, params, explain...);
    return plan_switched(query, text, cursor_options, params, explain...);
}

template <typename... Explain>
PlannedStmt *plan_uncompiled(Query *query, const char *text, int cursor_options, ParamListInfo params,
                             Explain... explain) {
    PlannedStmt *planned = plan_fixed(query, text, cursor_options, params, explain...);
    if (is_own_text(text)) planned->jitFlags = PGJIT_NONE;
    return planned;
}

// Checks and records a statement of jobq when its execution starts. Used as ExecutorStart_hook, because at this point,
// the tables are locked and nothing has been changed yet. If a rule adds statements, canSetTag is set only for jobq's
// own statement.
void note_start(QueryDesc *query, int flags) {
    if (next_start != nullptr)
        next_start(query, flags);
    else
        standard_ExecutorStart(query, flags);
    if (!is_own_text(query->sourceText)) return;
    require_trusted_followers(*query->plannedstmt);
    if (query->plannedstmt->canSetTag) own.memory = query->estate->es_query_cxt;
}

Rows execute_as_planned(Statement &statement, const Params &params, bool read_only, Snapshot snapshot) {
    const OwnQuery outer = own;
    if (statement.plan == nullptr) prepare(statement);
    PG_TRY();
    {
        own = {text_of(statement), nullptr, statement.planning};
        execute(statement, params, read_only, snapshot);
    }
    PG_FINALLY();
    { own = outer; }
    PG_END_TRY();
    return {SPI_tuptable, SPI_tuptable != nullptr ? SPI_tuptable->numvals : 0};
}

}  // namespace

bool is_own_query(MemoryContext query) { return own.memory != nullptr && query == own.memory; }

void install_query_hooks() {
    next_planner = planner_hook;
    planner_hook = plan_uncompiled;
    next_start = ExecutorStart_hook;
    ExecutorStart_hook = note_start;
    next_table_hook = table_hook();
    table_hook() = take_for_large;
    next_stats = get_relation_stats_hook;
    get_relation_stats_hook = hide_statistics;
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
