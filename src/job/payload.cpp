// See payload.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "job/payload.h"

extern "C" {
#include "access/detoast.h"
}

namespace jobq {

void check_json_size(Datum value, const char *name) {
    const Size size = toast_raw_datum_size(value);
    const Size limit = static_cast<Size>(settings.max_payload_kb) * 1024;
    if (size > limit)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"%s\" is too large: %zu bytes", name, size),
                 errhint("The limit is jobq.max_payload, now %d kB. Store large data elsewhere and pass a reference.",
                         settings.max_payload_kb)));
}

}  // namespace jobq
