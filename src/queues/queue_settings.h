// Checks settings of queues and kinds that are passed as arguments, and reads rows of jobq.queue_settings and
// jobq.kind_settings. Both tasks use the list of settings in core/queue_settings.h.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// Returns the columns of the settings table of `level`, each preceded by ", " and `prefix`, in the order of the list in
// core/queue_settings.h. The text is allocated in the current memory context.
const char *setting_columns(core::SettingLevel level, const char *prefix = "");

// Reads the settings of this level from the columns of the row, beginning with column number `first`. A NULL leaves the
// setting unchanged. Texts and lists are copied into `context`.
void read_settings_at(const Row &row, int first, core::SettingLevel level, MemoryContext context,
                      core::QueueSettings *settings);

// Returns the SQL type of the setting.
Oid setting_type(const core::QueueSetting &setting);

// Raises 22023 if a number or interval is out of range or a text is not one of the allowed values, 42602 or 42622 if a
// queue name is invalid, and the errors of elements_of() for a list.
void check_setting(const core::QueueSetting &setting, Datum value);

// Returns whether the value, which check_setting() has accepted, removes the setting.
bool takes_away(const core::QueueSetting &setting, Datum value);

}  // namespace jobq
