// See toast_reader.h.
#include "compat/pg.h"

#include "table/toast_reader.h"

extern "C" {
#include "access/heapam.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// The columns of a TOAST table that a read uses. The key of its index consists of the first two columns.
enum ToastColumn : AttrNumber { kValueId = 1, kChunkSeq, kChunk };

}  // namespace

varlena *ToastReader::read(Relation table, Datum value) {
    auto *stored = static_cast<varlena *>(static_cast<void *>(DatumGetPointer(value)));
    if (!VARATT_IS_EXTERNAL_ONDISK(stored)) return pg_detoast_datum(stored);
    varatt_external place;
    VARATT_EXTERNAL_GET_POINTER(place, stored);
    if (place.va_toastrelid != table->rd_rel->reltoastrelid || !open(place.va_toastrelid)) return detoast_attr(stored);

    const Size size = VARATT_EXTERNAL_GET_EXTSIZE(place);
    const bool is_compressed = size + VARHDRSZ < static_cast<Size>(place.va_rawsize);
    auto *result = static_cast<varlena *>(palloc(size + VARHDRSZ));
    if (is_compressed)
        SET_VARSIZE_COMPRESSED(result, size + VARHDRSZ);
    else
        SET_VARSIZE(result, size + VARHDRSZ);
    // If chunks are missing or damaged, the server's function raises an error that describes the damage.
    if (!read_chunks(place.va_valueid, size, VARDATA(result))) return detoast_attr(stored);
    if (!is_compressed) return result;
    varlena *decompressed = detoast_attr(result);
    pfree(result);
    return decompressed;
}

// Opens the TOAST table. Returns false if its access method is not heap, because other access methods can store values
// in another format.
bool ToastReader::open(Oid toast_table) {
    if (toast_ != nullptr) return true;
    toast_ = table_open(toast_table, AccessShareLock);
    if (toast_->rd_tableam != GetHeapamTableAmRoutine()) {
        close();
        return false;
    }
    index_ = index_open(toast_get_valid_index(toast_table, AccessShareLock), AccessShareLock);
    scan_ = begin_index_scan(toast_, index_, toast_snapshot(&snapshot_), 1);
    chunk_ = table_slot_create(toast_, nullptr);
    return true;
}

// Copies the chunks of a value. Returns false if chunks are missing or damaged.
bool ToastReader::read_chunks(Oid value_id, Size size, char *to) {
    ScanKeyData key;
    ScanKeyInit(&key, kValueId, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value_id));
    index_rescan(scan_, &key, 1, nullptr, 0);
    Size copied = 0;
    for (int32 seq = 0; copied < size && index_getnext_slot(scan_, ForwardScanDirection, chunk_); seq++) {
        bool is_null = false;
        if (DatumGetInt32(slot_getattr(chunk_, kChunkSeq, &is_null)) != seq) return false;
        auto *chunk =
            static_cast<varlena *>(static_cast<void *>(DatumGetPointer(slot_getattr(chunk_, kChunk, &is_null))));
        if (is_null || VARATT_IS_EXTERNAL(chunk) || VARATT_IS_COMPRESSED(chunk)) return false;
        const Size length = VARSIZE_ANY_EXHDR(chunk);
        if (length > size - copied) return false;
        memcpy(to + copied, VARDATA_ANY(chunk), length);
        copied += length;
    }
    return copied == size;
}

void ToastReader::close() {
    if (toast_ == nullptr) return;
    if (scan_ != nullptr) {
        index_endscan(scan_);
        ExecDropSingleTupleTableSlot(chunk_);
        index_close(index_, NoLock);
    }
    table_close(toast_, NoLock);
    *this = {};
}

}  // namespace jobq
