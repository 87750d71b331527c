// See attached.h.
#include "compat/pg.h"

#include "table/attached.h"

#include "table/index_plan.h"

extern "C" {
#include "catalog/pg_am_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "rewrite/rewriteHandler.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// The result and the text of its reason. Only the first reason is kept.
struct Verdict {
    Attached attached;
    char reason[3 * NAMEDATALEN + 128];
};
Verdict verdict;

void found(const char *format, const char *name = "") {
    if (verdict.attached.reason != nullptr) return;
    snprintf(verdict.reason, sizeof(verdict.reason), format, name);
    verdict.attached.reason = verdict.reason;
}

void look_at_storage(Relation table) {
    if (table->rd_rel->relkind != RELKIND_RELATION || table->rd_rel->relam != HEAP_TABLE_AM_OID)
        found("it is not a heap table");
    if (table->rd_rel->relrowsecurity) found("it has row security");
    if (newer_than_tested()) found("this release of jobq has not been tested with PostgreSQL %s", PG_MAJORVERSION);
}

const char *rule_name(Oid rule) {
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_rewrite_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(rule));
    Relation rules = table_open(RewriteRelationId, AccessShareLock);
    SysScanDesc scan = systable_beginscan(rules, RewriteOidIndexId, true, nullptr, 1, &key);
    HeapTuple row = systable_getnext(scan);
    const char *name =
        HeapTupleIsValid(row) ? pstrdup(NameStr(reinterpret_cast<Form_pg_rewrite>(GETSTRUCT(row))->rulename)) : "";
    systable_endscan(scan);
    table_close(rules, AccessShareLock);
    return name;
}

void look_at_rules(Relation table) {
    const RuleLock *rules = table->rd_rules;
    for (int i = 0; rules != nullptr && i < rules->numLocks; i++) {
        const RewriteRule *rule = rules->rules[i];
        if (rule->enabled == RULE_DISABLED) continue;
        found("it has a rule, \"%s\"", rule_name(rule->ruleId));
        verdict.attached.sees_ends = true;
        verdict.attached.has_rule |= rule->event == CMD_INSERT || rule->event == CMD_UPDATE;
    }
}

// Returns whether the trigger belongs to jobq: its function belongs to the same extension as the table. The name of the
// trigger does not matter. All of these triggers ignore jobq's own changes.
bool is_own_trigger(const Trigger &trigger, Oid extension) {
    return OidIsValid(extension) && getExtensionOfObject(ProcedureRelationId, trigger.tgfoid) == extension;
}

void look_at_triggers(Relation table) {
    // Works on a copy, because a catalog lookup may rebuild the entry of the relation in the cache.
    const TriggerDesc *triggers = CopyTriggerDesc(table->trigdesc);
    if (triggers == nullptr) return;
    const Oid extension = getExtensionOfObject(RelationRelationId, RelationGetRelid(table));
    for (int i = 0; i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (trigger.tgenabled == TRIGGER_DISABLED || is_own_trigger(trigger, extension)) continue;
        if (trigger.tgisinternal && OidIsValid(trigger.tgconstraint)) {
            char *constraint = get_constraint_name(trigger.tgconstraint);
            found("it has a constraint that is checked by triggers, \"%s\"", constraint != nullptr ? constraint : "");
        } else {
            found("it has a trigger, \"%s\"", trigger.tgname);
        }
        verdict.attached.sees_ends |= (trigger.tgtype & (TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE)) != 0;
    }
}

[[noreturn]] void unknown_layout(Relation table, const char *message) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", message),
                    errhint("Do not change the columns of jobq, and rename a column of your own that has such a name. "
                            "After an upgrade, install the library and the SQL scripts of the same version, and run "
                            "ALTER EXTENSION jobq UPDATE."),
                    errtable(table)));
    pg_unreachable();
}

void check_type(Relation table, const OwnColumn &own, const FormData_pg_attribute *column) {
    if (OidIsValid(own.type) && column->atttypid != own.type)
        unknown_layout(table, psprintf("column \"%s\" of table jobq.%s has the type %s", own.name,
                                       RelationGetRelationName(table), format_type_be(column->atttypid)));
}

void check_fixed_columns(Relation table, const OwnColumns &own) {
    TupleDesc desc = RelationGetDescr(table);
    const char *name = RelationGetRelationName(table);
    for (int i = 0; i < own.fixed; i++) {
        const OwnColumn &expected = own.columns[i];
        if (i >= desc->natts)
            unknown_layout(table, psprintf("column \"%s\" of table jobq.%s is missing", expected.name, name));
        const FormData_pg_attribute *column = TupleDescAttr(desc, i);
        if (column->attisdropped)
            unknown_layout(table, psprintf("column \"%s\" of table jobq.%s has been dropped", expected.name, name));
        if (strcmp(NameStr(column->attname), expected.name) != 0)
            unknown_layout(table, psprintf("column \"%s\" of table jobq.%s is called \"%s\"", expected.name, name,
                                           NameStr(column->attname)));
        check_type(table, expected, column);
    }
}

void find_later_columns(Relation table, const OwnColumns &own) {
    TupleDesc desc = RelationGetDescr(table);
    for (int i = own.fixed; i < own.count; i++) {
        AttrNumber *number = &own.later[i - own.fixed];
        *number = InvalidAttrNumber;
        for (int c = own.fixed; c < desc->natts; c++) {
            const FormData_pg_attribute *column = TupleDescAttr(desc, c);
            if (column->attisdropped || strcmp(NameStr(column->attname), own.columns[i].name) != 0) continue;
            check_type(table, own.columns[i], column);
            *number = column->attnum;
        }
    }
}

// Returns nullptr for a column that a user has added.
const OwnColumn *own_column(const Attached &attached, const FormData_pg_attribute *column) {
    const int i = find_own(attached.own, column->attnum);
    return i < 0 ? nullptr : &attached.own.columns[i];
}

void look_at_columns(Relation table) {
    Attached *attached = &verdict.attached;
    TupleDesc desc = RelationGetDescr(table);
    if (desc->constr->num_check > 0) found("it has a CHECK constraint, \"%s\"", desc->constr->check[0].ccname);
    if (desc->constr->has_generated_stored) found("it has a generated column");
    attached->sees_ends |= desc->constr->num_check > 0 || desc->constr->has_generated_stored;
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute column = TupleDescAttr(desc, i);
        if (column->attisdropped) continue;
        const OwnColumn *own = own_column(*attached, column);
        if (column->attnotnull && (own == nullptr || !own->not_null)) {
            found("column \"%s\" is NOT NULL", NameStr(column->attname));
            attached->sees_ends = true;
        }
        if (column->attgenerated != '\0') continue;
        if (default_counts(*attached, column) && default_of(table, column) != nullptr) {
            found("column \"%s\" has a default", NameStr(column->attname));
            attached->has_defaults = true;
        }
        if (own != nullptr && own->with_default == OwnDefault::Refused && column->atthasdef)
            attached->refused_default = column->attnum;
    }
}

void look_at_indexes(Relation table) {
    List *indexes = RelationGetIndexList(table);
    if (list_length(indexes) > kMaxTableIndexes) found("it has too many indexes");
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        if (index->rd_index->indisexclusion)
            found("it has an exclusion constraint, \"%s\"", RelationGetRelationName(index));
        index_close(index, NoLock);
    }
    list_free(indexes);
}

}  // namespace

int find_own(const OwnColumns &own, AttrNumber number) {
    if (number <= own.fixed) return number - 1;
    for (int i = own.fixed; i < own.count; i++)
        if (number_of(own, i) == number) return i;
    return -1;
}

Attached attached_to(Relation table, const OwnColumns &own) {
    check_fixed_columns(table, own);
    find_later_columns(table, own);
    verdict = {};
    verdict.attached.own = own;
    look_at_storage(table);
    look_at_rules(table);
    look_at_triggers(table);
    if (RelationGetDescr(table)->constr != nullptr) look_at_columns(table);
    look_at_indexes(table);
    return verdict.attached;
}

void require_no_rules(Relation table, const Attached &attached) {
    if (!attached.has_rule) return;
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("table jobq.%s has a rule for INSERT or UPDATE, so unique_key cannot be used",
                           RelationGetRelationName(table)),
                    errdetail("PostgreSQL does not support INSERT ... ON CONFLICT for tables with such a rule."),
                    errhint("Drop or disable the rule, and use a trigger instead."), errtable(table)));
}

void require_known_defaults(Relation table, const Attached &attached) {
    if (attached.refused_default == InvalidAttrNumber) return;
    const char *name = NameStr(TupleDescAttr(RelationGetDescr(table), attached.refused_default - 1)->attname);
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("column \"%s\" of table jobq.%s has a default, which jobq cannot apply", name,
                    RelationGetRelationName(table)),
             errdetail("Other columns of a job are derived from this column."),
             errhint("Run ALTER TABLE jobq.%s ALTER COLUMN %s DROP DEFAULT, and pass the value when you enqueue.",
                     RelationGetRelationName(table), quote_identifier(name)),
             errtablecol(table, attached.refused_default)));
}

bool default_counts(const Attached &attached, Form_pg_attribute column) {
    if (column->attisdropped || column->attgenerated != '\0') return false;
    const OwnColumn *own = own_column(attached, column);
    return own == nullptr || own->with_default == OwnDefault::Honoured;
}

Node *default_of(Relation table, Form_pg_attribute column) {
    Node *expression = build_column_default(table, column->attnum);
    if (expression != nullptr || get_typtype(column->atttypid) != TYPTYPE_DOMAIN) return expression;
    // The constraints of a domain may reject NULL.
    Node *null = reinterpret_cast<Node *>(
        makeConst(column->atttypid, -1, column->attcollation, column->attlen, Datum(0), true, column->attbyval));
    return coerce_to_domain(null, InvalidOid, -1, column->atttypid, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
}

void check_deferred_constraints() {
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    // Inside a SECURITY DEFINER function or as_role(), switches to the role as which the constraints would be checked
    // at the commit. After an error, the server restores the user. Since PostgreSQL 18, each constraint is checked as
    // the role that changed the row.
    const bool borrowed = kServerMajor < 18 && (context & SECURITY_LOCAL_USERID_CHANGE) != 0;
    if (borrowed) SetUserIdAndSecContext(GetOuterUserId(), context);
    // SET CONSTRAINTS ALL IMMEDIATE
    ConstraintsSetStmt *all = makeNode(ConstraintsSetStmt);
    AfterTriggerSetState(all);
    if (borrowed) SetUserIdAndSecContext(user, context);
}

}  // namespace jobq
