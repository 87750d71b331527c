// The library's entry: magic block, _PG_init, version.
#include "pg/pg.h"

#include "pg/spi.h"
#include "settings.h"
#include "shared/memory.h"
#include "shared/prepared.h"
#include "workers/drop_extension.h"
#include "workers/evict.h"
#include "workers/launcher.h"
#include "workers/triggers_changed.h"

extern "C" {

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

// Defines the settings; while preloading, also reserves the shared memory, hooks into utility commands
// and registers the launcher.
void _PG_init(void) {
    jobq::define_settings();
    jobq::install_query_hooks();
    if (!process_shared_preload_libraries_in_progress) return;
    jobq::request_shared_memory();
    jobq::watch_prepared();
    jobq::install_evict_hook();
    jobq::install_drop_extension_hook();
    jobq::install_triggers_hook();
    jobq::register_launcher();
}

PG_FUNCTION_INFO_V1(jobq_version);
PGDLLEXPORT Datum jobq_version(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    PG_RETURN_TEXT_P(cstring_to_text(JOBQ_VERSION));
}

}  // extern "C"
