// See call_executors.h.
#include "compat/pg.h"

#include "handlers/call_executors.h"
#include "job/logged.h"
#include "shmem/executors.h"

namespace jobq {

void call_executors_for_claimable() {
    const TransactionLog &log = transaction_log();
    const bool anything = log.ready_unknown || log.queues_unknown;
    if (log.queues.count == 0 && !anything) return;
    DatabaseState *db = known_session_database();
    const uint64 wanted = db == nullptr ? 0 : pg_atomic_read_u64(&db->handler_queues);
    if (wanted == 0) return;
    bool any = anything;
    for (const LoggedQueue &queue : log.queues) any |= (wanted & handler_bit(queue.name)) != 0;
    if (any) call_executors(db);
}

}  // namespace jobq
