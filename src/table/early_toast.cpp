// See early_toast.h.
#include "compat/pg.h"

#include "table/early_toast.h"

extern "C" {
#include "access/heaptoast.h"
#include "catalog/pg_am_d.h"
}

namespace jobq {

namespace {

// Returns the row length above which jobq makes the server toast a row, or 0 if the server toasts such rows without
// jobq's help.
Size target_of(Relation table) {
    const Size target = RelationGetToastTupleTarget(table, TOAST_TUPLE_TARGET);
    const bool has_toaster = table->rd_rel->relam == HEAP_TABLE_AM_OID && OidIsValid(table->rd_rel->reltoastrelid);
    return has_toaster && target < TOAST_TUPLE_TARGET ? target : 0;
}

bool may_leave(const FormData_pg_attribute &column, Datum value) {
    return column.attlen == -1 && column.attstorage != TYPSTORAGE_PLAIN && column.attstorage != TYPSTORAGE_MAIN &&
           !VARATT_IS_EXTERNAL(DatumGetPointer(value));
}

// Returns the column with the longest value that can be moved out of the row, or -1 if there is no such value.
int longest(TupleDesc desc, const TupleTableSlot *row) {
    int found = -1;
    Size most = 0;
    for (int i = 0; i < desc->natts; i++) {
        if (row->tts_isnull[i] || !may_leave(*TupleDescAttr(desc, i), row->tts_values[i])) continue;
        const Size size = VARSIZE_ANY(DatumGetPointer(row->tts_values[i]));
        if (size <= most) continue;
        most = size;
        found = i;
    }
    return found;
}

// Maximum length of a value that apart() leaves in the row, because moving such a short value to the TOAST table is not
// worth the cost.
constexpr Size kShort = 128;

Datum pointer_to(Datum value) {
    varatt_indirect to = {};
    to.pointer = static_cast<varlena *>(static_cast<void *>(DatumGetPointer(value)));
    auto *pointer = static_cast<char *>(palloc(INDIRECT_POINTER_SIZE));
    SET_VARTAG_EXTERNAL(pointer, VARTAG_INDIRECT);
    memcpy(VARDATA_EXTERNAL(pointer), &to, sizeof(to));
    return PointerGetDatum(pointer);
}

}  // namespace

EarlyToast toast_early(Relation table, TupleTableSlot *row) {
    const Size target = target_of(table);
    TupleDesc desc = RelationGetDescr(table);
    const Size header = MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(desc->natts));
    if (target == 0 || header + heap_compute_data_size(desc, row->tts_values, row->tts_isnull) <= target)
        return {-1, 0};
    const int column = longest(desc, row);
    if (column < 0) return {-1, 0};
    const EarlyToast early = {column, row->tts_values[column]};
    row->tts_values[column] = pointer_to(early.value);
    return early;
}

bool apart_allowed = false;

void forget_apart() { apart_allowed = false; }

Datum apart(Datum value) {
    const bool leaves =
        apart_allowed && !VARATT_IS_EXTERNAL(DatumGetPointer(value)) && VARSIZE_ANY(DatumGetPointer(value)) > kShort;
    return leaves ? pointer_to(value) : value;
}

}  // namespace jobq
