// The limits on JSON arguments.
#pragma once

#include "compat/pg.h"

namespace jobq {

// 54000 above jobq.max_payload; looks at the size without detoasting. `value` is a jsonb datum.
void check_json_size(Datum value, const char *name);
// The same with another limit, and the setting that says it.
void check_json_size(Datum value, const char *name, int limit_kb, const char *setting);

}  // namespace jobq
