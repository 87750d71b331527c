// Settings of queues between SQL and C++: arguments are checked, rows of jobq.queue_settings read, both by the table in
// queue_settings_policy.h.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "queues/queue_settings_policy.h"

namespace jobq {

// ", max_attempts, backoff_base ...", in the order of the table.
#define JOBQ_SETTING_COLUMN(name, ...) ", " #name
#define JOBQ_SETTING_COLUMNS                                                                                \
    JOBQ_QUEUE_SETTINGS(JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, \
                        JOBQ_SETTING_COLUMN)

// What the columns from `first` on say; a NULL leaves the field as it is. Texts are copied into `context`.
void read_settings_at(const Row &row, int first, MemoryContext context, core::QueueSettings *settings);

// The type of the setting in SQL.
Oid setting_type(const core::QueueSetting &setting);

// 22023 for a number or a span outside the bounds and for an unknown word; 42602 and 42622 for what is no name of a
// queue.
void check_setting(const core::QueueSetting &setting, Datum value);

// Whether this value takes the setting away. It has been checked.
bool takes_away(const core::QueueSetting &setting, Datum value);

}  // namespace jobq
