// Runs SQL statements from C++ with saved plans and typed parameters, and gives typed access to the rows that they
// return. No destructor in this file calls the server, because an error skips destructors. with_spi() closes SPI; after
// an error, the server closes SPI when it aborts the transaction.
#pragma once

#include "compat/call_then.h"
#include "compat/pg.h"

#include <string_view>

namespace jobq {

constexpr int kMaxParameters = 64;

enum class Planning : uint8 {
    Fixed,  // always uses index scans and nested loops, regardless of statistics and of the session's planner settings
    Free,   // lets the planner choose; for statements that an operator runs occasionally
};

// A statement and, after its first use in a session, its saved plan. A Statement must be a static object.
struct Statement {
    const char *sql;
    Oid types[kMaxParameters];  // parameter types, ended by InvalidOid
    Planning planning = Planning::Fixed;
    SPIPlanPtr plan = nullptr;
};

// The values of a statement's parameters, in order.
class Params {
 public:
    Params &add(Datum value) { return put(value, ' '); }
    Params &add_null() { return put(Datum(0), 'n'); }
    Params &add_if(bool present, Datum value) { return put(present ? value : Datum(0), present ? ' ' : 'n'); }

    Datum *values() const { return const_cast<Datum *>(values_); }
    const char *nulls() const { return nulls_; }

 private:
    Params &put(Datum value, char null) {
        Assert(count_ < kMaxParameters);
        values_[count_] = value;
        nulls_[count_++] = null;
        return *this;
    }
    int count_ = 0;
    Datum values_[kMaxParameters];
    char nulls_[kMaxParameters];
};

// One row of a result. Columns are numbered from 1.
class Row {
 public:
    Row(HeapTuple tuple, TupleDesc desc) : tuple_(tuple), desc_(desc) {}
    Datum get(int column, bool *is_null) const { return SPI_getbinval(tuple_, desc_, column, is_null); }
    bool is_null(int column) const {
        bool null;
        get(column, &null);
        return null;
    }
    // Returns the value of a column that cannot be NULL.
    Datum get(int column) const {
        bool null;
        return get(column, &null);
    }
    int64 int64_at(int column) const { return DatumGetInt64(get(column)); }
    int32 int32_at(int column) const { return DatumGetInt32(get(column)); }
    bool bool_at(int column) const { return DatumGetBool(get(column)); }
    std::string_view text_at(int column) const {
        const text *value = DatumGetTextPP(get(column));
        return {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
    }

 private:
    HeapTuple tuple_;
    TupleDesc desc_;
};

// The rows that a statement returned. They stay valid until SPI is closed.
class Rows {
 public:
    Rows(SPITupleTable *table, uint64 count) : table_(table), count_(count) {}
    uint64 size() const { return count_; }
    // Frees the memory of the rows immediately instead of when SPI is closed. Use this function for statements that run
    // in a loop.
    void free() { SPI_freetuptable(table_); }
    Row operator[](uint64 index) const { return {tuple(index), desc()}; }
    HeapTuple tuple(uint64 index) const { return table_->vals[index]; }
    TupleDesc desc() const { return table_->tupdesc; }

 private:
    SPITupleTable *table_;
    uint64 count_;
};

// Runs a statement that may write. The statement uses a new snapshot in READ COMMITTED, and the transaction's snapshot
// in REPEATABLE READ and above.
Rows run(Statement &statement, const Params &params);

// Runs a read-only statement under `snapshot`, which must be registered, or under the active snapshot if `snapshot` is
// nullptr.
Rows read(Statement &statement, const Params &params, Snapshot snapshot = nullptr);

// Returns whether a query is the statement that run() or read() is currently executing. `query` is the memory context
// in which the query is executed (es_query_cxt). Returns false for a user's query, and for a query that a trigger, a
// constraint, or an index expression executes while the statement runs.
bool is_own_query(MemoryContext query);

// Returns the number of rows that the last run() inserted, updated, or deleted.
inline int64 affected() { return static_cast<int64>(SPI_processed); }

// Runs SQL text that was built at run time, such as a GRANT statement, which cannot have parameters.
void run_text(const char *sql);

// Installs hooks that plan statements with Planning::Fixed, disable JIT for all of jobq's statements, and record which
// query executions belong to jobq. Called once by _PG_init.
void install_query_hooks();

// Opens SPI, calls body(), and closes SPI. The result of body() must not point into SPI's memory.
template <typename Body>
auto with_spi(Body body) {
    SPI_connect();
    return call_then(body, [] { SPI_finish(); });
}

}  // namespace jobq
