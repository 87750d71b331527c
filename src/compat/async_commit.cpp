// See async_commit.h.
#include "compat/pg.h"

#include "compat/async_commit.h"

extern "C" {
#include "access/xlog.h"
}

namespace jobq {

namespace {

// WAL position at the end of the last call that allowed an asynchronous commit. It need not be reset at the end of the
// transaction, because the WAL records of another transaction never end at the same position.
XLogRecPtr allowed_end = 0;

}  // namespace

bool is_whole_transaction() { return XactLastRecEnd == 0 || XactLastRecEnd == allowed_end; }

void allow_async_commit() { allowed_end = XactLastRecEnd; }

void choose_async_commit() {
    if (XactLastRecEnd != 0 && XactLastRecEnd == allowed_end)
        set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

}  // namespace jobq
