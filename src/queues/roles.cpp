// See roles.h. Only this file assigns functions to kinds of roles.
#include "compat/pg.h"

#include "compat/spi.h"
#include "queues/roles.h"
#include "row/owner.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_namespace.h"
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

// Sets of role kinds, represented as bit masks.
constexpr unsigned set_of(RoleKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kProducer = set_of(RoleKind::Producer);
constexpr unsigned kWorker = set_of(RoleKind::Worker);
constexpr unsigned kOperator = set_of(RoleKind::Operator);
constexpr unsigned kMonitor = set_of(RoleKind::Monitor);
constexpr unsigned kEverybody = kProducer | kWorker | kOperator | kMonitor;
constexpr unsigned kNobody = 0;
// Flag of a function that only roles with access to all queues are allowed to call.
constexpr unsigned kOfAllQueues = 1U << lengthof(kRoleKinds);

struct Call {
    const char *function;
    unsigned kinds;
};
// All public functions, and the kinds of roles that are allowed to call each function, in the same order as in
// docs/reference/functions.md.
constexpr Call kCalls[] = {
    {"jobq_enqueue", kProducer},
    {"jobq_enqueue_many", kProducer},
    {"jobq_enqueue_jobs", kProducer},
    {"jobq_create_batch", kProducer},
    {"jobq_seal_batch", kProducer | kWorker | kOperator},
    {"jobq_get_batch", kProducer | kWorker | kOperator},
    {"jobq_next_runs", kProducer | kOperator | kMonitor},
    {"jobq_get", kProducer | kWorker | kOperator},
    {"jobq_result", kProducer | kWorker | kOperator},
    {"jobq_wait_job", kProducer | kWorker | kOperator},
    {"jobq_signal", kProducer | kWorker},
    {"jobq_signal_job", kProducer | kWorker},

    {"jobq_claim", kWorker},
    {"jobq_claim_any", kWorker},
    {"jobq_complete", kWorker},
    {"jobq_complete_many", kWorker},
    {"jobq_complete_and_claim", kWorker},
    {"jobq_complete_and_claim_any", kWorker},
    {"jobq_claim_json", kWorker},
    {"jobq_fail", kWorker},
    {"jobq_fail_many", kWorker},
    {"jobq_heartbeat", kWorker},
    {"jobq_heartbeat_many", kWorker},
    {"jobq_heartbeat_worker", kWorker},
    {"jobq_write_log", kWorker},
    {"jobq_release", kWorker},
    {"jobq_release_many", kWorker},
    {"jobq_snooze", kWorker},
    {"jobq_wait", kWorker},
    {"jobq_wait_any", kWorker},
    {"jobq_wake", kWorker | kOperator},
    {"jobq_step", kWorker},
    {"jobq_step_done", kWorker},
    {"jobq_spawn", kWorker},
    {"jobq_steps", kWorker},
    {"jobq_sleep", kWorker},
    {"jobq_await", kWorker},
    {"jobq_await_jobs", kWorker},
    {"jobq_dependency_results", kWorker | kOperator},

    {"jobq_dot", kOperator},
    {"jobq_explain", kOperator | kMonitor},
    {"jobq_explain_queue", kOperator | kMonitor},
    {"jobq_log", kOperator | kMonitor},
    {"jobq_access", kOperator | kMonitor},
    {"jobq_workers", kOperator | kMonitor},
    {"jobq_workers_wanted", kOperator | kMonitor},
    {"jobq_metrics", kOperator | kMonitor},
    {"jobq_prometheus", kOperator | kMonitor},
    {"jobq_reset_metrics", kOperator | kOfAllQueues},
    {"jobq_cancel", kOperator},
    {"jobq_cancel_jobs", kOperator},
    {"jobq_skip", kOperator},
    {"jobq_retry", kOperator},
    {"jobq_retry_jobs", kOperator},
    {"jobq_retry_from", kOperator},
    {"jobq_fork", kOperator},
    {"jobq_reschedule", kOperator},
    {"jobq_reschedule_jobs", kOperator},
    {"jobq_delete", kOperator},
    {"jobq_delete_jobs", kOperator},
    {"jobq_redrive", kOperator},
    {"jobq_create_queue", kOperator},
    {"jobq_alter_queue", kOperator},
    {"jobq_pause_queue", kOperator},
    {"jobq_resume_queue", kOperator},
    {"jobq_purge_queue", kOperator},
    {"jobq_drop_queue", kOperator},
    {"jobq_alter_kind", kOperator},
    {"jobq_drop_kind", kOperator},
    {"jobq_set_limit", kOperator},
    {"jobq_set_named_limit", kOperator},
    {"jobq_drop_named_limit", kOperator},
    {"jobq_schedule", kOperator},
    {"jobq_schedules", kOperator},
    {"jobq_unschedule", kOperator},
    {"jobq_pause_schedule", kOperator},
    {"jobq_resume_schedule", kOperator},
    {"jobq_run_schedule", kOperator},
    {"jobq_set_handler", kOperator},
    {"jobq_drop_handler", kOperator},
    {"jobq_tick", kOperator | kOfAllQueues},
    {"jobq_adopt", kOperator | kOfAllQueues},

    {"jobq_shard_id", kEverybody},
    {"jobq_version", kEverybody},
    {"jobq_grant", kNobody},
    {"jobq_revoke", kNobody},
    {"jobq_set_shard", kNobody},
};

struct Kind {
    // Functions, or tables in the schema jobq, that identify this kind of role. A role is of this kind if it has been
    // granted privileges on all of them. jobq_grant never grants privileges on all of them to a role of another kind,
    // but a user might have granted some of them with plain SQL.
    const char *markers[3];
    // The view whose column is granted to a role that is restricted to some queues, or nullptr if there is no such
    // view.
    const char *queues_view;
    bool reads_views;
    bool reads_jobs;
    bool reads_ticks;
};
// The rows are in the order of RoleKind.
constexpr Kind kKinds[] = {
    {{"jobq_enqueue", "jobq_enqueue_many"}, "producer_queues", false, false, false},
    {{"jobq_claim", "jobq_complete", "jobq_heartbeat"}, "worker_queues", false, false, false},
    {{"jobq_cancel", "jobq_retry", "jobq_pause_queue"}, "operator_queues", true, true, false},
    {{"tick_state", "queue_stats"}, nullptr, true, false, true},
};

const Kind &kind_of(RoleKind kind) { return kKinds[static_cast<int>(kind)]; }
const char *name_of(RoleKind kind) { return kRoleKindNames[static_cast<int>(kind)].data(); }

// Matches only functions of the extension, in the schema of the public functions ($1) or in jobq, because a user might
// have created another function with the same name.
#define OWN_FUNCTION                                                                                                \
    "FROM pg_catalog.pg_proc p, pg_catalog.pg_depend d, pg_catalog.pg_extension e "                                 \
    "WHERE p.pronamespace OPERATOR(pg_catalog.=) ANY (ARRAY[$1, 'jobq'::pg_catalog.regnamespace::pg_catalog.oid]) " \
    "AND p.proname OPERATOR(pg_catalog.=) $2 "                                                                      \
    "AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid "               \
    "AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' "                            \
    "AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid "       \
    "AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'jobq' "

Statement find_function = {
    "SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text " OWN_FUNCTION, {OIDOID, NAMEOID}, Planning::Free};

// Selects a grant to the role itself, not to PUBLIC or to roles of which it is a member.
Statement find_grant = {"SELECT 1 FROM (SELECT p.proacl AS acl " OWN_FUNCTION R"(
             UNION ALL
             SELECT c.relacl FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n
             WHERE c.relnamespace OPERATOR(pg_catalog.=) n.oid AND n.nspname OPERATOR(pg_catalog.=) 'jobq'
               AND c.relname OPERATOR(pg_catalog.=) $2) o,
            pg_catalog.aclexplode(o.acl) a
       WHERE a.grantee OPERATOR(pg_catalog.=) $3)",
                        {OIDOID, NAMEOID, OIDOID},
                        Planning::Free};

// Selects the column privilege that marks the role as restricted: a privilege on a column of the view. A privilege on
// the whole view would not be a suitable mark, because GRANT ... ON ALL TABLES IN SCHEMA grants such privileges, and
// would restrict a role by accident.
Statement find_restriction = {
    R"(SELECT 1 FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n, pg_catalog.pg_attribute t,
            pg_catalog.aclexplode(t.attacl) a
       WHERE c.relnamespace OPERATOR(pg_catalog.=) n.oid AND n.nspname OPERATOR(pg_catalog.=) 'jobq'
         AND c.relname OPERATOR(pg_catalog.=) $1 AND t.attrelid OPERATOR(pg_catalog.=) c.oid
         AND a.grantee OPERATOR(pg_catalog.=) $2)",
    {NAMEOID, OIDOID},
    Planning::Free};

Statement find_queues = {
    R"(SELECT g.queue FROM jobq.queue_grants g
       WHERE g.role::pg_catalog.oid OPERATOR(pg_catalog.=) $1 AND g.profile OPERATOR(pg_catalog.=) $2)",
    {OIDOID, TEXTOID},
    Planning::Free};

Statement add_queues = {
    R"(INSERT INTO jobq.queue_grants (role, profile, queue)
       SELECT $1::pg_catalog.regrole, $2, q.queue FROM pg_catalog.unnest($3) AS q(queue) ON CONFLICT DO NOTHING)",
    {OIDOID, TEXTOID, TEXTARRAYOID},
    Planning::Free};

Statement remove_queues = {
    R"(DELETE FROM jobq.queue_grants g
       WHERE g.role::pg_catalog.oid OPERATOR(pg_catalog.=) $1 AND g.profile OPERATOR(pg_catalog.=) $2
         AND g.queue OPERATOR(pg_catalog.=) ANY ($3))",
    {OIDOID, TEXTOID, TEXTARRAYOID},
    Planning::Free};

Statement remove_all_queues = {
    R"(DELETE FROM jobq.queue_grants g
       WHERE g.role::pg_catalog.oid OPERATOR(pg_catalog.=) $1 AND g.profile OPERATOR(pg_catalog.=) $2)",
    {OIDOID, TEXTOID},
    Planning::Free};

// Grants or revokes one privilege. `object` is already quoted for SQL.
void change_one(bool grant, const char *privilege, const char *object, const char *role) {
    run_text(psprintf("%s %s ON %s %s %s", grant ? "GRANT" : "REVOKE", privilege, object, grant ? "TO" : "FROM",
                      quote_identifier(role)));
}

void change_function(bool grant, const char *name, Oid schema, const char *role) {
    NameData function;
    namestrcpy(&function, name);
    const Rows found = run(find_function, Params().add(ObjectIdGetDatum(schema)).add(NameGetDatum(&function)));
    for (uint64 i = 0; i < found.size(); i++)
        change_one(grant, "EXECUTE", psprintf("ROUTINE %s", TextDatumGetCString(found[i].get(1))), role);
}

bool is_granted(Oid role, const char *object, Oid schema) {
    NameData name;
    namestrcpy(&name, object);
    const Params params = Params().add(ObjectIdGetDatum(schema)).add(NameGetDatum(&name)).add(ObjectIdGetDatum(role));
    return read(find_grant, params, GetActiveSnapshot()).size() > 0;
}

void change_view_of_queues(bool grant, const Kind &kind, const char *role) {
    if (kind.queues_view != nullptr) change_one(grant, "SELECT (queue)", psprintf("jobq.%s", kind.queues_view), role);
}

void change_tables(bool grant, const Kind &kind, const char *role) {
    if (kind.reads_views) {
        change_one(grant, "SELECT",
                   "jobq.queues, jobq.queue_stats, jobq.lanes, jobq.background_workers, jobq.workers, jobq.attempts, "
                   "jobq.log_lines, "
                   "jobq.limits, jobq.named_limits, jobq.schedules, jobq.handlers, jobq.kinds, "
                   "jobq.halted_groups, jobq.batches",
                   role);
        change_one(grant, "EXECUTE",
                   "FUNCTION jobq.background_workers(), jobq.tracked_lanes(), jobq.queue_counters(), "
                   "jobq.oldest_pending_age(text), jobq.oldest_heartbeats(), jobq.limit_running(text, text, text), "
                   "jobq.limit_tokens(text, text, integer, interval, text), "
                   "jobq.named_limit_running(text), jobq.named_limit_tokens(text, integer, interval), "
                   "jobq.handler_state(text, text, text, text, text[]), jobq.metric_families()",
                   role);
    }
    if (kind.reads_ticks) change_one(grant, "SELECT", "jobq.tick_state", role);
    if (kind.reads_jobs) {
        // Operators are allowed to delete rows of jobq.kept_keys, which makes the keys in these rows available again.
        // They never need to insert or update rows.
        change_one(grant, "DELETE", "jobq.kept_keys", role);
        change_one(
            grant, "SELECT",
            "jobq.jobs, jobq.queue_settings, jobq.lane_directory, jobq.kept_keys, jobq.limit_settings, "
            "jobq.named_limit_settings, jobq.edges, jobq.dependencies, jobq.deleted_dependencies, jobq.queue_grants, "
            "jobq.schedule_settings, jobq.handler_settings, jobq.steps, jobq.signals, jobq.job_signals, "
            "jobq.kind_settings, "
            "jobq.batch_settings, jobq.batch_counts",
            role);
    }
}

void grant_all(RoleKind which, bool all_queues, const char *role, Oid schema) {
    const Kind &kind = kind_of(which);
    change_one(true, "USAGE", "SCHEMA jobq", role);
    for (const Call &call : kCalls)
        if ((call.kinds & set_of(which)) != 0 && (all_queues || (call.kinds & kOfAllQueues) == 0))
            change_function(true, call.function, schema, role);
    // A role that is restricted to some queues gets no privileges on the tables and views that show all queues.
    if (all_queues)
        change_tables(true, kind, role);
    else
        change_view_of_queues(true, kind, role);
}

// The grants that a role has for one RoleKind.
struct Holding {
    bool held;
    bool restricted;
    uint64 queues;
};

Holding holding_of(Oid role, RoleKind kind, Oid schema) {
    Holding found = {};
    with_owner_spi_now([&] {
        found.held = holds_kind(role, kind, schema);
        found.queues = queues_granted(role, kind).size();
        found.restricted = found.queues > 0 || is_restricted(role, kind);
    });
    return found;
}

Datum name_datum(RoleKind kind) { return CStringGetTextDatum(name_of(kind)); }

Datum queues_datum(const Names &queues) {
    auto *texts = static_cast<Datum *>(palloc(sizeof(Datum) * Max(queues.count, 1)));
    for (int i = 0; i < queues.count; i++) texts[i] = PointerGetDatum(make_text(queues.items[i]));
    return array_of(texts, queues.count, TEXTOID);
}

void forget_queues(Oid role, RoleKind kind) {
    run(remove_all_queues, Params().add(ObjectIdGetDatum(role)).add(name_datum(kind)));
}

void refuse_some_queues(const RoleChange &change) {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("role \"%s\" already has the profile \"%s\" for all queues", change.role, name_of(change.kind)),
         errhint(
             "First revoke the profile with jobq_revoke(%s, %s), and then grant it for the queues that the role needs.",
             quote_literal_cstr(change.role), quote_literal_cstr(name_of(change.kind)))));
}

void warn_of_missing_queues(const RoleChange &change, int64 removed) {
    if (removed == change.queues.count) return;
    ereport(WARNING, (errcode(ERRCODE_WARNING),
                      errmsg("role \"%s\" had the profile \"%s\" for only %lld of these %d queues", change.role,
                             name_of(change.kind), static_cast<long long>(removed), change.queues.count)));
}

// Warns if the role has no USAGE privilege on the schema. Does not grant the privilege, because the owner of the schema
// must decide whether to grant it: the schema might contain other objects, and jobq_revoke could not know whether the
// role still needs the privilege.
void warn_of_closed_schema(const RoleChange &change, Oid role) {
    if (pg_namespace_aclcheck(change.schema, role, ACL_USAGE) == ACLCHECK_OK) return;
    const char *schema = get_namespace_name(change.schema);
    ereport(
        WARNING,
        (errcode(ERRCODE_WARNING),
         errmsg("role \"%s\" does not have the USAGE privilege on schema \"%s\", which contains the functions of jobq",
                change.role, schema),
         errhint("Run GRANT USAGE ON SCHEMA %s TO %s.", quote_identifier(schema), quote_identifier(change.role))));
}

// The privileges that a role needs because of kinds other than the kind that is being revoked.
struct Needs {
    unsigned kinds, of_all_queues;  // sets of kinds
    bool views, jobs;
};

Needs needs_beside(RoleKind kind, Oid role, Oid schema) {
    Needs needs = {};
    for (const RoleKind other : kRoleKinds) {
        const Holding kept = other == kind ? Holding{} : holding_of(role, other, schema);
        if (!kept.held) continue;
        needs.kinds |= set_of(other);
        if (kept.restricted) continue;
        needs.of_all_queues |= set_of(other);
        needs.views |= kind_of(other).reads_views;
        needs.jobs |= kind_of(other).reads_jobs;
    }
    return needs;
}

bool is_needed(const Call &call, const Needs &needs) {
    return (call.kinds & ((call.kinds & kOfAllQueues) != 0 ? needs.of_all_queues : needs.kinds)) != 0;
}

void revoke_wholly(const RoleChange &change, Oid role, const Holding &was) {
    const Needs needs = needs_beside(change.kind, role, change.schema);
    for (const Call &call : kCalls)
        if ((call.kinds & set_of(change.kind)) != 0 && !is_needed(call, needs))
            change_function(false, call.function, change.schema, change.role);
    Kind kind = kind_of(change.kind);
    kind.reads_views = kind.reads_views && !needs.views;
    kind.reads_jobs = kind.reads_jobs && !needs.jobs;
    change_tables(false, kind, change.role);
    if (was.restricted) change_view_of_queues(false, kind, change.role);
    if (needs.kinds == 0) change_one(false, "USAGE", "SCHEMA jobq", change.role);
    if (was.queues > 0) forget_queues(role, change.kind);
}

// Waits until no other session grants or revokes kinds of roles. GRANT takes no lock, so concurrent GRANT commands
// would fail with "tuple concurrently updated".
void wait_for_others() {
    LockDatabaseObject(NamespaceRelationId, get_namespace_oid("jobq", false), 0, ShareUpdateExclusiveLock);
}

}  // namespace

void grant_kind(const RoleChange &change) {
    wait_for_others();
    const Kind &kind = kind_of(change.kind);
    const Oid role = get_role_oid(change.role, false);
    const Holding has = holding_of(role, change.kind, change.schema);
    if (!change.all_queues && has.held && !has.restricted) refuse_some_queues(change);
    grant_all(change.kind, change.all_queues, change.role, change.schema);
    // If the role does not hold the kind, the rows in jobq.queue_grants belong to a dropped role with the same OID.
    if (has.queues > 0 && (change.all_queues || !has.held)) forget_queues(role, change.kind);
    if (change.all_queues && has.restricted) change_view_of_queues(false, kind, change.role);
    if (!change.all_queues)
        run(add_queues,
            Params().add(ObjectIdGetDatum(role)).add(name_datum(change.kind)).add(queues_datum(change.queues)));
    warn_of_closed_schema(change, role);
}

void revoke_kind(const RoleChange &change) {
    wait_for_others();
    const Oid role = get_role_oid(change.role, false);
    const Holding has = holding_of(role, change.kind, change.schema);
    if (change.all_queues) {
        revoke_wholly(change, role, has);
        return;
    }
    if (has.held && !has.restricted) refuse_some_queues(change);
    int64 removed = 0;
    if (has.queues > 0) {
        run(remove_queues,
            Params().add(ObjectIdGetDatum(role)).add(name_datum(change.kind)).add(queues_datum(change.queues)));
        removed = affected();
    }
    warn_of_missing_queues(change, removed);
    // If no queue is left, revokes the whole kind.
    if (has.restricted && static_cast<int64>(has.queues) == removed) revoke_wholly(change, role, {true, true, 0});
}

bool kind_calls(RoleKind kind, const char *function) {
    for (const Call &call : kCalls)
        if (strcmp(call.function, function) == 0) return (call.kinds & set_of(kind)) != 0;
    return false;
}

bool holds_kind(Oid role, RoleKind kind, Oid schema) {
    const auto &markers = kind_of(kind).markers;
    return std::all_of(std::begin(markers), std::end(markers),
                       [&](const char *marker) { return marker == nullptr || is_granted(role, marker, schema); });
}

bool is_restricted(Oid role, RoleKind kind) {
    const char *queues_view = kind_of(kind).queues_view;
    if (queues_view == nullptr) return false;
    NameData name;
    namestrcpy(&name, queues_view);
    const Params params = Params().add(NameGetDatum(&name)).add(ObjectIdGetDatum(role));
    return read(find_restriction, params, GetActiveSnapshot()).size() > 0;
}

Rows queues_granted(Oid role, RoleKind kind) {
    const Params params = Params().add(ObjectIdGetDatum(role)).add(name_datum(kind));
    return read(find_queues, params, GetActiveSnapshot());
}

}  // namespace jobq
