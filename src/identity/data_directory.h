// The mark of the data directory: tells a restored base backup, or a data directory that was copied file by file, from
// the original, which has the same system identifier and the same oids. A promoted standby is neither.
//
// The file is pg_stat_tmp/jobq.mark, since base backups leave the contents of that directory out. It is looked at when
// the server starts, before recovery puts away what says that it is started from a backup: only where jobq is
// preloaded.
#pragma once

#include "compat/pg.h"

namespace jobq {

// For main/jobq.cpp.
Size data_directory_size();
void make_data_directory(void *memory, bool fresh);

// The mark that rows of jobq.identity must carry; 0: any will do.
int64 data_directory_mark();

// Whether the server goes on where it was shut down: it is no standby, not started from a backup, and no copy. Only in
// the process that has made the shared memory.
bool data_directory_goes_on();

}  // namespace jobq
