// Reads one column of a system catalog row, which is looked up by OID.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns the value of the column, or `none` if the row does not exist. This works only for columns of fixed size.
template <typename Form, typename Value>
Value catalog_value(SysCacheIdentifier cache, Oid oid, Value Form::*column, Value none) {
    HeapTuple tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(tuple)) return none;
    const Value value = reinterpret_cast<const Form *>(GETSTRUCT(tuple))->*column;
    ReleaseSysCache(tuple);
    return value;
}

}  // namespace jobq
