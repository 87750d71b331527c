// Checks queue settings that are passed as arguments, and reads rows of jobq.queue_settings. Both tasks use the list of
// settings in core/queue_settings.h.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// Expands to the column names ", max_attempts, backoff_base ...", in the order of the list in core/queue_settings.h.
#define JOBQ_SETTING_COLUMN(name, ...) ", " #name
#define JOBQ_SETTING_COLUMNS                                                                                \
    JOBQ_QUEUE_SETTINGS(JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, JOBQ_SETTING_COLUMN, \
                        JOBQ_SETTING_COLUMN)

// Reads the settings from the columns of the row, beginning with column number `first`. A NULL leaves the setting
// unchanged. Text values are copied into `context`.
void read_settings_at(const Row &row, int first, MemoryContext context, core::QueueSettings *settings);

// Returns the SQL type of the setting.
Oid setting_type(const core::QueueSetting &setting);

// Raises 22023 if a number or interval is out of range or a text is not one of the allowed values, and 42602 or 42622
// if a queue name is invalid.
void check_setting(const core::QueueSetting &setting, Datum value);

// Returns whether the value, which check_setting() has accepted, removes the setting.
bool takes_away(const core::QueueSetting &setting, Datum value);

}  // namespace jobq
