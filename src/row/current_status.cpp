// See current_status.h.
#include "compat/pg.h"

#include "compat/spi.h"
#include "row/current_status.h"

namespace jobq {

namespace {

Statement get_status = {"SELECT j.status::text FROM jobq.jobs j WHERE j.id = $1", {INT8OID}};

}  // namespace

bool current_status(int64 job_id, core::JobStatus *status) {
    const Rows rows = run(get_status, Params().add(Int64GetDatum(job_id)));
    return rows.size() == 1 && core::parse_status(rows[0].text_at(1), status);
}

}  // namespace jobq
