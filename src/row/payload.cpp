// See payload.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "row/payload.h"

namespace jobq {

void check_json_size(Datum value, const char *name, int limit_kb, const char *setting) {
    const Size size = toast_raw_datum_size(value);
    if (size > static_cast<Size>(limit_kb) * 1024)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"%s\" is too large: %zu bytes", name, size),
                 setting == nullptr
                     ? errhint("Store large data elsewhere and pass a reference. The maximum size is %d kB.", limit_kb)
                     : errhint("Store large data elsewhere and pass a reference. The maximum size is %d kB (\"%s\").",
                               limit_kb, setting)));
}

void check_json_size(Datum value, const char *name) {
    check_json_size(value, name, settings.max_payload_kb, "jobq.max_payload");
}

}  // namespace jobq
