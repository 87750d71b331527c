// See attached.h.
#include "pg/pg.h"

#include "pg/attached.h"

extern "C" {
#include "catalog/pg_trigger.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "rewrite/rewriteHandler.h"
}

namespace jobq {

namespace {

// The triggers that jobq declares itself all begin with WHEN (jobq.by_hand()): never for what is done below SQL.
bool is_own_trigger(const Trigger &trigger) {
    constexpr const char *names[] = {"fill_job", "count_job", "follow_job", "tell_job", "forget_job"};
    for (const char *name : names)
        if (strcmp(trigger.tgname, name) == 0) return true;
    return false;
}

bool fires_for(const Trigger &trigger, int16 event) {
    return TRIGGER_FOR_ROW(trigger.tgtype) && (trigger.tgtype & event) != 0 && trigger.tgenabled != TRIGGER_DISABLED &&
           !is_own_trigger(trigger);
}

bool has_row_trigger(Relation table, int16 event) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (fires_for(triggers->triggers[i], event)) return true;
    return false;
}

bool deletes_by_statement(Relation table) {
    const TriggerDesc *triggers = table->trigdesc;
    return triggers != nullptr && (triggers->trig_delete_before_statement || triggers->trig_delete_after_statement);
}

bool has_rule_for_changes(Relation table) {
    const RuleLock *rules = table->rd_rules;
    for (int i = 0; rules != nullptr && i < rules->numLocks; i++) {
        const RewriteRule *rule = rules->rules[i];
        if (rule->enabled != RULE_DISABLED && (rule->event == CMD_INSERT || rule->event == CMD_UPDATE)) return true;
    }
    return false;
}

[[noreturn]] void unknown_layout(Relation table, const OwnColumn &column, const char *what) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("column \"%s\" of table jobq.%s %s", column.name, RelationGetRelationName(table), what),
                    errhint("jobq's own columns must stay as they are. After an upgrade: install the extension's files "
                            "of one version and run ALTER EXTENSION jobq UPDATE."),
                    errtable(table)));
    pg_unreachable();
}

void check_layout(Relation table, const OwnColumn *own, int own_count) {
    TupleDesc desc = RelationGetDescr(table);
    for (int i = 0; i < own_count; i++) {
        if (i >= desc->natts) unknown_layout(table, own[i], "is missing");
        const FormData_pg_attribute *column = TupleDescAttr(desc, i);
        if (column->attisdropped) unknown_layout(table, own[i], "has been dropped");
        if (strcmp(NameStr(column->attname), own[i].name) != 0)
            unknown_layout(table, own[i], psprintf("is called \"%s\"", NameStr(column->attname)));
        if (OidIsValid(own[i].type) && column->atttypid != own[i].type)
            unknown_layout(table, own[i], psprintf("has the type %s", format_type_be(column->atttypid)));
    }
}

bool may_be_null_to_us(const Attached &attached, int i) { return i >= attached.own_count || !attached.own[i].not_null; }

void look_at_columns(Relation table, Attached *attached) {
    TupleDesc desc = RelationGetDescr(table);
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute column = TupleDescAttr(desc, i);
        if (column->attisdropped) continue;
        if (column->attnotnull && may_be_null_to_us(*attached, i))
            attached->insert_by_executor = attached->update_by_executor = true;
        if (column->attgenerated != '\0') continue;
        if (default_counts(*attached, column)) attached->has_defaults |= default_of(table, column) != nullptr;
        if (i < attached->own_count && attached->own[i].with_default == OwnDefault::Refused && column->atthasdef)
            attached->refused_default = column->attnum;
    }
}

}  // namespace

Attached attached_to(Relation table, const OwnColumn *own, int own_count) {
    check_layout(table, own, own_count);
    const TupleConstr *constraints = RelationGetDescr(table)->constr;
    const bool computed = constraints != nullptr && (constraints->num_check > 0 || constraints->has_generated_stored);
    Attached attached = {};
    attached.own = own;
    attached.own_count = own_count;
    attached.insert_by_executor = computed || has_row_trigger(table, TRIGGER_TYPE_INSERT);
    attached.update_by_executor = computed || has_row_trigger(table, TRIGGER_TYPE_UPDATE);
    attached.has_rule = has_rule_for_changes(table);
    if (constraints != nullptr) look_at_columns(table, &attached);
    attached.delete_by_sql = attached.update_by_executor || has_row_trigger(table, TRIGGER_TYPE_DELETE) ||
                             deletes_by_statement(table) || table->rd_rules != nullptr;
    return attached;
}

void require_no_rules(Relation table, const Attached &attached) {
    if (!attached.has_rule) return;
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("table jobq.%s has a rule for INSERT or UPDATE, which jobq cannot honour",
                    RelationGetRelationName(table)),
             errhint("Use a trigger instead. DROP RULE, or ALTER TABLE ... DISABLE RULE, makes the queue work again."),
             errtable(table)));
}

void require_known_defaults(Relation table, const Attached &attached) {
    if (attached.refused_default == InvalidAttrNumber) return;
    const char *name = attached.own[attached.refused_default - 1].name;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("column \"%s\" of table jobq.%s has a default, which jobq cannot honour", name,
                           RelationGetRelationName(table)),
                    errdetail("Other columns of a job follow from this one."),
                    errhint("ALTER TABLE jobq.%s ALTER COLUMN %s DROP DEFAULT, and name the value when you enqueue.",
                            RelationGetRelationName(table), quote_identifier(name)),
                    errtablecol(table, attached.refused_default)));
}

bool default_counts(const Attached &attached, Form_pg_attribute column) {
    return !column->attisdropped && column->attgenerated == '\0' &&
           (column->attnum > attached.own_count ||
            attached.own[column->attnum - 1].with_default == OwnDefault::Honoured);
}

Node *default_of(Relation table, Form_pg_attribute column) {
    Node *expression = build_column_default(table, column->attnum);
    if (expression != nullptr || get_typtype(column->atttypid) != TYPTYPE_DOMAIN) return expression;
    // A domain's constraints may refuse NULL.
    Node *null = reinterpret_cast<Node *>(
        makeConst(column->atttypid, -1, column->attcollation, column->attlen, Datum(0), true, column->attbyval));
    return coerce_to_domain(null, InvalidOid, -1, column->atttypid, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
}

void check_deferred_constraints() {
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    // Inside a SECURITY DEFINER function: as whom they would fire at the commit. An error puts the user back by itself.
    const bool borrowed = (context & SECURITY_LOCAL_USERID_CHANGE) != 0;
    if (borrowed) SetUserIdAndSecContext(GetOuterUserId(), context);
    // SET CONSTRAINTS ALL IMMEDIATE
    ConstraintsSetStmt *all = makeNode(ConstraintsSetStmt);
    AfterTriggerSetState(all);
    if (borrowed) SetUserIdAndSecContext(user, context);
}

}  // namespace jobq
