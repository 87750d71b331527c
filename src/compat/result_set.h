// The rows a set-returning function returns: a tuplestore filled at once (materialize mode).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

#include <initializer_list>

namespace jobq {

class ResultSet {
 public:
    // Must be constructed before SPI is opened: the store belongs to the caller's memory context.
    explicit ResultSet(FunctionCallInfo fcinfo) {
        InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC | MAT_SRF_BLESS);
        info_ = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    }
    void row(const Datum *values, const bool *nulls) {
        tuplestore_putvalues(info_->setResult, info_->setDesc, const_cast<Datum *>(values), const_cast<bool *>(nulls));
    }
    // A row without NULLs.
    void row(std::initializer_list<Datum> values) {
        static constexpr bool kNoNulls[kMaxColumns] = {};
        row(values.begin(), kNoNulls);
    }
    // Each row that a statement found, whose columns are those of the function.
    void rows(const Rows &found) {
        Datum values[kMaxColumns];
        bool nulls[kMaxColumns];
        Assert(info_->setDesc->natts <= kMaxColumns);
        for (uint64 i = 0; i < found.size(); i++) {
            for (int c = 0; c < info_->setDesc->natts; c++) values[c] = found[i].get(c + 1, &nulls[c]);
            row(values, nulls);
        }
    }
    // What the function returns.
    Datum done() const { return Datum(0); }

 private:
    static constexpr int kMaxColumns = 64;
    ReturnSetInfo *info_;
};

}  // namespace jobq
