// See own_columns.h.
#include "compat/pg.h"

#include "table/own_columns.h"

namespace jobq {

namespace {

[[noreturn]] void unknown_layout(Relation table, const char *message) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", message),
                    errhint("Undo any changes to jobq's columns, and rename any column of your own that has the same "
                            "name as one of them. After an upgrade, install the library and the SQL scripts of the "
                            "same version, and run ALTER EXTENSION jobq UPDATE."),
                    errtable(table)));
    pg_unreachable();
}

void check_type(Relation table, const OwnColumn &own, const FormData_pg_attribute *column) {
    if (OidIsValid(own.type) && column->atttypid != own.type)
        unknown_layout(table, psprintf("column \"%s\" of table \"jobq.%s\" has type %s", own.name,
                                       RelationGetRelationName(table), format_type_be(column->atttypid)));
}

void check_fixed_columns(Relation table, const OwnColumns &own) {
    TupleDesc desc = RelationGetDescr(table);
    const char *name = RelationGetRelationName(table);
    for (int i = 0; i < own.fixed; i++) {
        const OwnColumn &expected = own.columns[i];
        if (i >= desc->natts)
            unknown_layout(table, psprintf("column \"%s\" of table \"jobq.%s\" is missing", expected.name, name));
        const FormData_pg_attribute *column = TupleDescAttr(desc, i);
        if (column->attisdropped)
            unknown_layout(table, psprintf("column \"%s\" of table \"jobq.%s\" has been dropped", expected.name, name));
        if (strcmp(NameStr(column->attname), expected.name) != 0)
            unknown_layout(table, psprintf("column \"%s\" of table \"jobq.%s\" is named \"%s\"", expected.name, name,
                                           NameStr(column->attname)));
        check_type(table, expected, column);
    }
}

}  // namespace

int find_own(const OwnColumns &own, AttrNumber number) {
    if (number <= own.fixed) return number - 1;
    for (int i = own.fixed; i < own.count; i++)
        if (number_of(own, i) == number) return i;
    return -1;
}

void check_own_columns(Relation table, const OwnColumns &own) {
    check_fixed_columns(table, own);
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

}  // namespace jobq
