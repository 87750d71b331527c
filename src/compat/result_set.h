// The rows of a set-returning function, collected in a tuplestore (materialize mode).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

#include <initializer_list>

namespace jobq {

class ResultSet {
 public:
    static constexpr int kMaxColumns = 64;

    // Must be constructed before SPI is opened, because the tuplestore belongs to the memory context of the caller.
    explicit ResultSet(FunctionCallInfo fcinfo) {
        InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC | MAT_SRF_BLESS);
        info_ = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    }
    void row(const Datum *values, const bool *nulls) {
        tuplestore_putvalues(info_->setResult, info_->setDesc, const_cast<Datum *>(values), const_cast<bool *>(nulls));
    }
    // Adds a row without NULLs.
    void row(std::initializer_list<Datum> values) {
        static constexpr bool kNoNulls[kMaxColumns] = {};
        row(values.begin(), kNoNulls);
    }
    // Adds all rows of a result that has the same columns as the function.
    void rows(const Rows &found) {
        Datum values[kMaxColumns];
        bool nulls[kMaxColumns];
        Assert(info_->setDesc->natts <= kMaxColumns);
        for (uint64 i = 0; i < found.size(); i++) {
            for (int c = 0; c < info_->setDesc->natts; c++) values[c] = found[i].get(c + 1, &nulls[c]);
            row(values, nulls);
        }
    }
    // Returns the value that the C function must return.
    Datum done() const { return Datum(0); }

 private:
    ReturnSetInfo *info_;
};

}  // namespace jobq
