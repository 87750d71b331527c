// See limit_names.h.
#include "compat/pg.h"

#include "core/lane.h"
#include "row/limit_names.h"

namespace jobq {

namespace {

// Adds the name unless all names that fit come before it in byte order.
void add_name(LimitNames *names, std::string_view name) {
    int at = 0;
    while (at < names->count && names->items[at] < name) at++;
    if (at == core::kMaxLimitsOfJob || (at < names->count && names->items[at] == name)) return;
    if (names->count < core::kMaxLimitsOfJob) names->count++;
    for (int i = names->count - 1; i > at; i--) names->items[i] = names->items[i - 1];
    names->items[at] = name;
}

}  // namespace

Names canonical_limits(ArrayType *limits) {
    if (limits == nullptr) return {nullptr, 0};
    Names names = names_of(limits, "limits", core::kMaxLimitNameBytes, core::kMaxNames);
    for (int i = 0; i < names.count; i++)
        check_name(names.items[i], {"limits", i + 1}, core::kMaxLimitNameBytes, false);
    names.count = core::canonical_set(names.items, names.count);
    if (names.count <= core::kMaxLimitsOfJob) return names;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"limits\" must contain at most %d names, not %d", core::kMaxLimitsOfJob, names.count),
             errhint("Omit some of the names.")));
    pg_unreachable();
}

Datum array_of_names(const std::string_view *names, int count) {
    auto *items = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) items[i] = PointerGetDatum(make_text(names[i]));
    return array_of(items, count, TEXTOID);
}

LimitNames names_in_limits(const ArrayType *limits) {
    LimitNames names = {};
    if (ARR_NDIM(limits) != 1 || array_contains_nulls(const_cast<ArrayType *>(limits))) return names;
    const int count = ArrayGetNItems(ARR_NDIM(limits), ARR_DIMS(limits));
    const char *element = ARR_DATA_PTR(limits);
    for (int i = 0; i < count; i++) {
        add_name(&names, {VARDATA_ANY(element), VARSIZE_ANY_EXHDR(element)});
        element += VARSIZE_ANY(element);
        element = reinterpret_cast<const char *>(INTALIGN(element));
    }
    return names;
}

}  // namespace jobq
