// See latch.h.
#include "compat/pg.h"

#include "compat/latch.h"

extern "C" {
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace jobq {

namespace {

#if PG_VERSION_NUM >= 170000
constexpr const char *kNames[] = {"JobqLauncherMain", "JobqWorkerMain", "JobqExecutorMain",   "JobqExecutorRetry",
                                  "JobqWait",         "JobqWaitJob",    "JobqDatabaseCommand"};

uint32 number_of(WaitEvent event) {
    static uint32 numbers[lengthof(kNames)];
    const int index = static_cast<int>(event);
    if (numbers[index] == 0) numbers[index] = WaitEventExtensionNew(kNames[index]);
    return numbers[index];
}
#else
uint32 number_of(WaitEvent) { return PG_WAIT_EXTENSION; }
#endif

}  // namespace

void wait_for_latch(core::Micros span, WaitEvent event) {
    const auto milliseconds = static_cast<long>((span + core::kMillisecond - 1) / core::kMillisecond);
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds, number_of(event));
    ResetLatch(MyLatch);
}

}  // namespace jobq
