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

// The result of attached_to(). `reason` contains the text to which attached.reason points. Only the first reason that
// is found is kept.
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

// Returns whether the trigger belongs to jobq, which means that its function belongs to the same extension as the
// table. The name of the trigger does not matter. All of jobq's triggers ignore changes that jobq itself makes.
bool is_own_trigger(const Trigger &trigger, Oid extension) {
    return OidIsValid(extension) && getExtensionOfObject(ProcedureRelationId, trigger.tgfoid) == extension;
}

void look_at_triggers(Relation table) {
    // Works on a copy of the triggers, because a catalog lookup can rebuild the relation's cache entry.
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

// Returns jobq's description of the column, or nullptr for a column that a user has added.
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

Attached attached_to(Relation table, const OwnColumns &own) {
    check_own_columns(table, own);
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
                    errmsg("cannot use \"unique_key\" because table \"jobq.%s\" has a rule for INSERT or UPDATE",
                           RelationGetRelationName(table)),
                    errdetail("PostgreSQL does not support INSERT ... ON CONFLICT for tables with such a rule."),
                    errhint("Drop or disable the rule, and use a trigger instead."), errtable(table)));
}

void require_known_defaults(Relation table, const Attached &attached) {
    if (attached.refused_default == InvalidAttrNumber) return;
    const char *name = NameStr(TupleDescAttr(RelationGetDescr(table), attached.refused_default - 1)->attname);
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("column \"%s\" of table \"jobq.%s\" has a default, which jobq cannot apply", name,
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
    // Converts NULL to the domain, because the constraints of the domain might reject NULL.
    Node *null = reinterpret_cast<Node *>(
        makeConst(column->atttypid, -1, column->attcollation, column->attlen, Datum(0), true, column->attbyval));
    return coerce_to_domain(null, InvalidOid, -1, column->atttypid, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
}

}  // namespace jobq
