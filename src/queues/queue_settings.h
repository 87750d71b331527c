// Checks settings of queues that come as arguments and reads rows of jobq.queue_settings, using the table in
// core/queue_settings.h.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// ", max_attempts, backoff_base ...", in the order of the table.
#define JOBQ_SETTING_COLUMN(name, ...) ", " #name
#define JOBQ_SETTING_COLUMNS                                                                                \
    JOBQ_QUEUE_SETTINGS(JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, \
                        JOBQ_SETTING_COLUMN)

// Reads the settings from the columns that start at `first`. A NULL leaves the field unchanged. Texts are copied into
// `context`.
void read_settings_at(const Row &row, int first, MemoryContext context, core::QueueSettings *settings);

// Returns the SQL type of the setting.
Oid setting_type(const core::QueueSetting &setting);

// Raises 22023 for a number or a span out of range and for an unknown word, and 42602 or 42622 for an invalid queue
// name.
void check_setting(const core::QueueSetting &setting, Datum value);

// Returns whether this checked value removes the setting.
bool takes_away(const core::QueueSetting &setting, Datum value);

}  // namespace jobq
