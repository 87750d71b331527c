// Small things that the statements of the store share.
#pragma once

#include "pg/pg.h"
#include "pg/spi.h"

namespace jobq {

// Raises unless the last run() changed exactly `expected` rows: a trigger or rule of somebody's kept one out.
inline void require_affected(int64 expected) {
    if (affected() == expected) return;
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                    errmsg("a statement on jobq's tables changed %lld rows instead of %lld",
                           static_cast<long long>(affected()), static_cast<long long>(expected)),
                    errhint("Is there a trigger or rule on jobq.jobs that suppresses changes?")));
}

}  // namespace jobq
