// See roles.h. The one place that says which function is for whom.
#include "pg/pg.h"

#include "pg/spi.h"
#include "store/roles.h"

extern "C" {
#include "catalog/pg_namespace.h"
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

constexpr const char *kProducer[] = {"jobq_enqueue", "jobq_enqueue_many", "jobq_enqueue_jobs", "jobq_get",
                                     "jobq_result",  "jobq_wait_job",     "jobq_version",      nullptr};
constexpr const char *kWorker[] = {
    "jobq_claim",   "jobq_claim_any",          "jobq_complete",  "jobq_complete_many",  "jobq_complete_and_claim",
    "jobq_fail",    "jobq_fail_many",          "jobq_heartbeat", "jobq_heartbeat_many", "jobq_heartbeat_worker",
    "jobq_release", "jobq_release_many",       "jobq_snooze",    "jobq_wait",           "jobq_get",
    "jobq_result",  "jobq_dependency_results", "jobq_wait_job",  "jobq_wake",           "jobq_version",
    nullptr};
constexpr const char *kOperator[] = {"jobq_get",
                                     "jobq_cancel",
                                     "jobq_retry",
                                     "jobq_reschedule",
                                     "jobq_delete",
                                     "jobq_cancel_jobs",
                                     "jobq_retry_jobs",
                                     "jobq_reschedule_jobs",
                                     "jobq_delete_jobs",
                                     "jobq_create_queue",
                                     "jobq_alter_queue",
                                     "jobq_drop_queue",
                                     "jobq_pause_queue",
                                     "jobq_resume_queue",
                                     "jobq_purge_queue",
                                     "jobq_set_limit",
                                     "jobq_redrive",
                                     "jobq_result",
                                     "jobq_dependency_results",
                                     "jobq_dot",
                                     "jobq_explain",
                                     "jobq_explain_queue",
                                     "jobq_wait_job",
                                     "jobq_wake",
                                     "jobq_tick",
                                     "jobq_version",
                                     nullptr};
constexpr const char *kMonitor[] = {"jobq_explain", "jobq_explain_queue", "jobq_version", nullptr};

struct Kind {
    const char *name;
    const char *marker;  // a function, or a table of the schema jobq, that only this kind has
    const char *const *functions;
    bool reads_views;
    bool reads_jobs;
};
// In the order of RoleKind.
constexpr Kind kKinds[] = {{"producer", "jobq_enqueue", kProducer, false, false},
                           {"worker", "jobq_claim", kWorker, false, false},
                           {"operator", "jobq_cancel", kOperator, true, true},
                           {"monitor", "tick_state", kMonitor, true, false}};

// The extension's own function only: somebody may have made another of that name.
Statement find_function = {
    R"(SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text
       FROM pg_catalog.pg_proc p, pg_catalog.pg_depend d, pg_catalog.pg_extension e
       WHERE p.pronamespace OPERATOR(pg_catalog.=) $1 AND p.proname OPERATOR(pg_catalog.=) $2
         AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
         AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'
         AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
         AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'jobq')",
    {OIDOID, NAMEOID},
    Planning::Free};

// Granted to the role itself, not to PUBLIC or a role it is a member of.
Statement find_grant = {
    R"(SELECT 1
       FROM (SELECT p.proacl AS acl FROM pg_catalog.pg_proc p
             WHERE p.pronamespace OPERATOR(pg_catalog.=) $1 AND p.proname OPERATOR(pg_catalog.=) $2
             UNION ALL
             SELECT c.relacl FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n
             WHERE c.relnamespace OPERATOR(pg_catalog.=) n.oid AND n.nspname OPERATOR(pg_catalog.=) 'jobq'
               AND c.relname OPERATOR(pg_catalog.=) $2) o,
            pg_catalog.aclexplode(o.acl) a, pg_catalog.pg_roles r
       WHERE a.grantee OPERATOR(pg_catalog.=) r.oid AND r.rolname OPERATOR(pg_catalog.=) $3)",
    {OIDOID, NAMEOID, NAMEOID},
    Planning::Free};

// `object` is quoted as SQL needs it.
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

bool holds(const char *role, const Kind &kind, Oid schema) {
    NameData function;
    NameData grantee;
    namestrcpy(&function, kind.marker);
    namestrcpy(&grantee, role);
    return run(find_grant,
               Params().add(ObjectIdGetDatum(schema)).add(NameGetDatum(&function)).add(NameGetDatum(&grantee)))
               .size() > 0;
}

void change_kind(bool grant, const Kind &kind, const char *role, Oid schema) {
    change_one(grant, "USAGE", "SCHEMA jobq", role);
    for (const char *const *name = kind.functions; *name != nullptr; name++)
        change_function(grant, *name, schema, role);
    if (kind.reads_views) {
        change_one(grant, "SELECT",
                   "jobq.queues, jobq.queue_stats, jobq.lanes, jobq.workers, jobq.attempts, jobq.limits", role);
        change_one(
            grant, "EXECUTE",
            "FUNCTION jobq.background_workers(), jobq.held_lanes(), jobq.queue_defaults(), jobq.queue_counters(), "
            "jobq.oldest_pending_age(text), jobq.oldest_heartbeats(), jobq.job_log(bigint), "
            "jobq.limit_running(text, text), jobq.limit_tokens(text, text, integer, interval)",
            role);
    }
    if (kind.functions == kMonitor) change_one(grant, "SELECT", "jobq.tick_state", role);
    // To free a key. There is nothing to insert or update by hand.
    if (kind.reads_jobs) change_one(grant, "DELETE", "jobq.kept_keys", role);
    if (kind.reads_jobs)
        change_one(grant, "SELECT",
                   "jobq.jobs, jobq.queue_settings, jobq.lane_directory, jobq.kept_keys, jobq.limit_settings, "
                   "jobq.dependencies, jobq.deleted_dependencies",
                   role);
}

}  // namespace

bool parse_role_kind(std::string_view name, RoleKind *kind) {
    for (int i = 0; i < static_cast<int>(lengthof(kKinds)); i++) {
        if (name != kKinds[i].name) continue;
        *kind = static_cast<RoleKind>(i);
        return true;
    }
    return false;
}

void change_privileges(const char *role, RoleKind kind, bool grant, Oid schema) {
    const Kind &changed = kKinds[static_cast<int>(kind)];
    // GRANT itself waits for nobody: two at once would fail with "tuple concurrently updated".
    LockDatabaseObject(NamespaceRelationId, get_namespace_oid("jobq", false), 0, ShareUpdateExclusiveLock);
    change_kind(grant, changed, role, schema);
    if (grant) return;
    // What another kind of the same role still needs.
    for (const Kind &other : kKinds)
        if (&other != &changed && holds(role, other, schema)) change_kind(true, other, role, schema);
}

}  // namespace jobq
