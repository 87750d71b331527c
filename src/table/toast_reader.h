// Reads the values that the server has moved to the TOAST table of a table.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Reads several values of one table. The server's detoast_attr() opens the TOAST table and its index and starts a scan
// for each value, which takes a third of its instructions. A ToastReader does this once.
class ToastReader {
 public:
    // Returns the whole value, which is a copy if the row does not contain it in the form that functions expect. An
    // active snapshot must see the row.
    varlena *read(Relation table, Datum value);
    // Must be called after the last read, unless an error ends the transaction.
    void close();

 private:
    bool open(Oid toast_table);
    bool read_chunks(Oid value_id, Size size, char *to);

    Relation toast_ = nullptr;
    Relation index_ = nullptr;
    IndexScanDesc scan_ = nullptr;
    TupleTableSlot *chunk_ = nullptr;
    SnapshotData snapshot_ = {};
};

}  // namespace jobq
