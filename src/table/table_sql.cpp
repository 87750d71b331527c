// See table_sql.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "table/early_toast.h"
#include "table/table_sql.h"

extern "C" {
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "port/pg_bitutils.h"
}

namespace jobq {

namespace {

// The kinds of generated statements. Update returns only the ctid of the row. UpdateOfOthers and Insert return the
// whole row; UpdateOfOthers is used instead of Update if a trigger or rule might change the row.
enum class Change : uint8 { Update, UpdateOfOthers, Insert };

// Condition that finds a row by its ctid. The server uses no index for this condition, so serializable transactions
// take no predicate locks on an index. The repeated comparison, with IS TRUE, prevents the statement from changing a
// newer version of the row: the server evaluates this comparison again for the newer version, for which it is false.
#define AT_PLACE " WHERE j.ctid = $2 AND (j.ctid = $2) IS TRUE AND j.%s = $1"
constexpr int kPlaceParameters = 2;

// The statements that were generated at run time, one for each set of written columns, at most a few hundred. They are
// never freed, because an outer call might currently be executing one of them.
struct Made {
    struct {
        uint64 change, columns;
    } key;
    Statement statement;
};
HTAB *made = nullptr;

// Returns the bit that represents a column in a set of columns. The bit depends on the column's index among the
// library's columns, not on its number in the table, because columns of later releases can have different numbers after
// the extension has been recreated.
uint64 bit_of(const Table &table, AttrNumber column) {
    const int i = find_own(table.attached.own, column);
    Assert(i >= 0 && i < kMaxOwnColumns);
    return uint64(1) << i;
}

// Calls body for each column, in the order of the library's columns.
template <typename Body>
void for_each_column(const Table &table, uint64 columns, Body body) {
    for (uint64 left = columns; left != 0; left &= left - 1)
        body(number_of(table.attached.own, pg_rightmost_one_pos64(left)));
}

const char *column_name(const Table &table, AttrNumber column) {
    return quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(table.relation), column - 1)->attname));
}

const char *table_name(const Table &table) {
    return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table.relation)),
                                      RelationGetRelationName(table.relation));
}

char *update_text(const Table &table, uint64 columns, const char *returned) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "UPDATE %s AS j SET ", table_name(table));
    int parameter = kPlaceParameters;
    for_each_column(table, columns, [&](AttrNumber column) {
        const char *separator = parameter > kPlaceParameters ? ", " : "";
        appendStringInfo(&sql, "%s%s = $%d", separator, column_name(table, column), ++parameter);
    });
    appendStringInfo(&sql, AT_PLACE " RETURNING %s", column_name(table, table.key), returned);
    return sql.data;
}

// Returns the text of an INSERT that omits the columns for which no row has a value, so that the server uses their
// defaults.
char *insert_text(const Table &table, uint64 columns) {
    StringInfoData into, from;
    initStringInfo(&into);
    initStringInfo(&from);
    for_each_column(table, columns, [&](AttrNumber column) {
        const bool is_json = TupleDescAttr(RelationGetDescr(table.relation), column - 1)->atttypid == JSONBOID;
        const char *separator = into.len > 0 ? ", " : "";
        const char *name = column_name(table, column);
        appendStringInfo(&into, "%s%s", separator, name);
        appendStringInfo(&from, is_json ? "%sCASE WHEN $2 THEN jobq.apart(u.%s) ELSE u.%s END" : "%su.%s", separator,
                         name, name);
    });
    return psprintf("INSERT INTO %s AS j (%s) SELECT %s FROM pg_catalog.unnest($1) u RETURNING " JOBQ_WHOLE_ROW,
                    table_name(table), into.data, from.data);
}

void set_types(const Table &table, Change change, uint64 columns, Oid *types) {
    TupleDesc desc = RelationGetDescr(table.relation);
    if (change == Change::Insert) {
        types[0] = get_array_type(table.relation->rd_rel->reltype);
        types[1] = BOOLOID;
        return;
    }
    types[0] = TupleDescAttr(desc, table.key - 1)->atttypid;
    types[1] = TIDOID;
    int count = kPlaceParameters;
    for_each_column(table, columns,
                    [&](AttrNumber column) { types[count++] = TupleDescAttr(desc, column - 1)->atttypid; });
    Assert(count < kMaxParameters);
}

// Returns the statement for this set of columns, and generates the statement if necessary. The statement is generated
// again if the extension has been recreated, because jobq's types then have different OIDs.
Statement *statement_for(const Table &table, Change change, uint64 columns) {
    Oid types[kMaxParameters] = {};
    set_types(table, change, columns, types);
    if (made == nullptr) made = make_hash_table("jobq statements", sizeof(Made::key), sizeof(Made), TopMemoryContext);
    Made wanted = {};
    wanted.key = {static_cast<uint64>(change), columns};
    bool found;
    auto *entry = static_cast<Made *>(hash_search(made, &wanted.key, HASH_ENTER, &found));
    Statement *statement = &entry->statement;
    if (found && statement->sql != nullptr && memcmp(statement->types, types, sizeof(types)) == 0) return statement;
    // Clears the statement first, so that the next call generates the statement again if the following code raises an
    // error.
    *statement = Statement();
    char *sql = change == Change::Insert
                    ? insert_text(table, columns)
                    : update_text(table, columns, change == Change::Update ? "j.ctid" : JOBQ_WHOLE_ROW);
    memcpy(statement->types, types, sizeof(types));
    statement->sql = MemoryContextStrdup(TopMemoryContext, sql);
    return statement;
}

// The statements that do not depend on a set of columns.
struct FixedStatements {
    Statement lock_or_skip, lock, remove;
};
FixedStatements fixed = {};

Statement *fixed_statement(const Table &table, Statement *statement, const char *format) {
    if (statement->sql != nullptr) return statement;
    char *sql = psprintf(format, table_name(table), column_name(table, table.key));
    statement->sql = MemoryContextStrdup(TopMemoryContext, sql);
    statement->types[0] = TupleDescAttr(RelationGetDescr(table.relation), table.key - 1)->atttypid;
    statement->types[1] = TIDOID;
    return statement;
}

int64 key_in(TupleTableSlot *row, const Table &table) {
    bool is_null;
    return DatumGetInt64(slot_getattr(row, table.key, &is_null));
}

Params place_of(const Table &table) {
    return Params().add(Int64GetDatum(key_in(table.row, table))).add(PointerGetDatum(&table.row->tts_tid));
}

// Returns whether the UPDATE can omit the column because its value stays the same. Users' triggers then do not treat
// the column as written. Columns of fixed size are never omitted, because writing them costs nothing.
bool is_unchanged(const Table &table, AttrNumber column) {
    const int at = column - 1;
    const FormData_pg_attribute *type = TupleDescAttr(RelationGetDescr(table.relation), at);
    if (type->attlen != -1) return false;
    if (table.row->tts_isnull[at] || table.changed->tts_isnull[at])
        return table.row->tts_isnull[at] == table.changed->tts_isnull[at];
    return table.row->tts_values[at] == table.changed->tts_values[at];
}

Datum composite_of(TupleDesc desc, const TupleTableSlot *row) {
    HeapTuple tuple = heap_form_tuple(desc, row->tts_values, row->tts_isnull);
    const Datum composite = heap_copy_tuple_as_datum(tuple, desc);
    heap_freetuple(tuple);
    return composite;
}

// Returns whether an UPDATE might store a different row than requested, because a trigger or rule can change the row.
bool may_be_made_another(const Table &table) {
    const TriggerDesc *triggers = table.relation->trigdesc;
    return table.attached.has_rule || (triggers != nullptr && triggers->trig_update_before_row);
}

// Determines why a statement changed no row. Returns false if another transaction has changed the row in the meantime.
// Otherwise, raises an error, because a trigger or rule must have suppressed the change.
bool require_unsuppressed(Table *table) {
    if (lock_by_sql(table, LockWaitBlock)) change_was_suppressed(*table);
    return false;
}

}  // namespace

void store_row(const Row &row, TupleTableSlot *slot) {
    ExecClearTuple(slot);
    TupleDesc desc = slot->tts_tupleDescriptor;
    int from = result_column(0);
    for (int i = 0; i < desc->natts; i++) {
        slot->tts_isnull[i] = TupleDescAttr(desc, i)->attisdropped;
        slot->tts_values[i] = slot->tts_isnull[i] ? Datum(0) : row.get(++from, &slot->tts_isnull[i]);
    }
    ExecStoreVirtualTuple(slot);
    ExecMaterializeSlot(slot);
    slot->tts_tid = *reinterpret_cast<ItemPointer>(DatumGetPointer(row.get(1)));
}

bool lock_by_sql(Table *table, LockWaitPolicy wait) {
    const bool skip = wait == LockWaitSkip;
    Statement *statement =
        skip ? fixed_statement(*table, &fixed.lock_or_skip,
                               "SELECT FROM %s AS j" AT_PLACE " FOR NO KEY UPDATE SKIP LOCKED")
             : fixed_statement(*table, &fixed.lock, "SELECT FROM %s AS j" AT_PLACE " FOR NO KEY UPDATE");
    return with_sql_of(table->relation, [&] { return run(*statement, place_of(*table)).size() > 0; });
}

bool update_by_sql(Table *table, const AttrNumber *columns, int column_count) {
    // Locks the row before the update, because the actions of a rule must not run if the update itself would find no
    // row.
    if (table->attached.has_rule && !lock_by_sql(table, LockWaitBlock)) return false;
    uint64 written = 0;
    for (int i = 0; i < column_count; i++)
        if (!is_unchanged(*table, columns[i])) written |= bit_of(*table, columns[i]);
    if (written == 0) return lock_by_sql(table, LockWaitBlock);
    Params params = place_of(*table);
    for_each_column(*table, written, [&](AttrNumber column) {
        params.add_if(!table->changed->tts_isnull[column - 1], table->changed->tts_values[column - 1]);
    });
    const Change change = may_be_made_another(*table) ? Change::UpdateOfOthers : Change::Update;
    bool found = false;
    with_sql_of(table->relation, [&] {
        const Rows rows = run(*statement_for(*table, change, written), params);
        found = rows.size() > 0;
        if (found && change == Change::UpdateOfOthers) store_row(rows[0], table->changed);
    });
    if (!found) return require_unsuppressed(table);
    const int64 key = key_in(table->changed, *table);
    if (key != key_in(table->row, *table)) key_was_changed(key);
    return true;
}

bool delete_by_sql(Table *table) {
    Statement *statement = fixed_statement(*table, &fixed.remove, "DELETE FROM %s AS j" AT_PLACE " RETURNING j.ctid");
    return with_sql_of(table->relation, [&] { return run(*statement, place_of(*table)).size() > 0; }) ||
           require_unsuppressed(table);
}

void insert_by_sql(Table *table, int count) {
    if (count == 0) return;
    TupleDesc desc = RelationGetDescr(table->relation);
    const bool unseen = !is_seen_at_insert(*table);
    // with_sql_of() closes SPI, which frees all memory that was allocated inside with_sql_of().
    with_sql_of(table->relation, [&] {
        Datum rows[kMaxAdded];
        uint64 columns = 0;
        for (int i = 0; i < count; i++) {
            const TupleTableSlot *row = table->added[i];
            for (int c = 0; c < table->attached.own.count; c++) {
                const AttrNumber column = number_of(table->attached.own, c);
                if (column != InvalidAttrNumber && !row->tts_isnull[column - 1]) columns |= uint64(1) << c;
            }
            rows[i] = composite_of(desc, row);
        }
        ArrayType *array = construct_array(rows, count, table->relation->rd_rel->reltype, -1, false, TYPALIGN_DOUBLE);
        const Params params = Params().add(PointerGetDatum(array)).add(BoolGetDatum(unseen));
        const Rows inserted =
            with_values_apart(unseen, [&] { return run(*statement_for(*table, Change::Insert, columns), params); });
        if (inserted.size() != static_cast<uint64>(count)) change_was_suppressed(*table);
        for (int i = 0; i < count; i++) store_row(inserted[i], table->added[i]);
    });
}

}  // namespace jobq
