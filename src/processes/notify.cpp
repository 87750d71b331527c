// See notify.h. Each batch of notifications is sent in a transaction that does nothing else.
#include "compat/pg.h"

#include "compat/transaction.h"
#include "processes/notify.h"
#include "wait/notices.h"

extern "C" {
#include "commands/async.h"
#include "pgstat.h"
#include "utils/backend_status.h"
}

namespace jobq {

namespace {

constexpr char kChannel[] = "jobq";
constexpr core::Micros kGap = 10000;
constexpr core::Micros kFailurePause = core::kSecond;
constexpr core::Micros kStay = 2 * core::kSecond;

// The state of the notifications that this process sends.
TimestampTz last_sent = 0;
TimestampTz not_before = 0;
bool failing = false;
Notices taken;

void send_taken() {
    pgstat_report_activity(STATE_RUNNING, "notify");
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
    for (int i = 0; i < taken.count; i++) Async_Notify(kChannel, taken.queues[i]);
    if (taken.anything) Async_Notify(kChannel, "");
    CommitTransactionCommand();
}

// Handles an error, and logs it unless the previous attempt to send notifications also failed. The usual cause is that
// the notification queue is full, because a session has executed LISTEN but never reads its notifications.
void note_failure(MemoryContext memory) {
    MemoryContextSwitchTo(memory);
    if (!failing) EmitErrorReport();
    failing = true;
    abort_after_error();
    FlushErrorState();
    post_notice_of_anything();
}

}  // namespace

TimestampTz send_notices(DatabaseState *db, TimestampTz now) {
    if (!notices_waiting(db)) return kNothingDue;
    not_before = bounded(not_before, now, kFailurePause);
    if (not_before > now) return not_before;
    take_notices(db, &taken);
    MemoryContext memory = CurrentMemoryContext;
    volatile bool sent = false;
    PG_TRY();
    {
        send_taken();
        sent = true;
    }
    PG_CATCH();
    {
        HOLD_INTERRUPTS();
        note_failure(memory);
        RESUME_INTERRUPTS();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(memory);
    if (sent) failing = false;
    last_sent = now;
    not_before = now + (sent ? kGap : kFailurePause);
    pgstat_report_stat(false);
    pgstat_report_activity(STATE_IDLE, nullptr);
    return notices_waiting(db) ? not_before : kNothingDue;
}

bool more_notices_likely(TimestampTz now) { return last_sent != 0 && bounded(last_sent + kStay, now, kStay) > now; }

}  // namespace jobq
