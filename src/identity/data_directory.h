// The mark of the data directory: distinguishes a restored base backup from its original, which has the same system
// identifier and the same oids. A promoted standby is no copy.
//
// The mark is in the file pg_stat_tmp/jobq.mark, because base backups leave out the contents of that directory. The
// server start reads and writes it, before recovery removes the files that show that the server starts from a backup.
// This needs a preloaded library. Files that were copied while the server was stopped are not recognized, because
// nothing distinguishes such a copy from a data directory that was moved to another disk.
#pragma once

#include "compat/pg.h"

namespace jobq {

// main/jobq.cpp calls these functions.
Size data_directory_size();
void make_data_directory(void *memory, bool fresh);

// Returns the mark that rows of jobq.identity must carry; 0 if any mark is valid.
int64 data_directory_mark();

}  // namespace jobq
