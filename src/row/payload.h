// Checks the size of JSON arguments.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Raises 54000 if the value is larger than jobq.max_payload. Reads the size without detoasting. `value` is a jsonb
// datum.
void check_json_size(Datum value, const char *name);
// Raises 54000 if the value is larger than `limit_kb`. `setting` is the name of the setting that determines this limit,
// or nullptr if the limit is a constant.
void check_json_size(Datum value, const char *name, int limit_kb, const char *setting);

}  // namespace jobq
