// The mark of the data directory is a number that distinguishes a restored base backup from the original server, which
// has the same system identifier and the same OIDs. A standby is not a copy, even after it has been promoted, so its
// mark is 0, and the rows of jobq.identity in its databases are valid whatever mark they contain.
//
// The mark is in the file pg_stat_tmp/jobq.mark, because base backups do not contain the files in that directory. The
// library reads and writes the file when the server starts, before recovery removes the files that show that the server
// starts from a backup. Therefore, the library must be preloaded. A data directory that was copied while the server was
// stopped is not recognized as a copy, because nothing distinguishes it from a data directory that was moved to another
// disk.
#pragma once

#include "compat/pg.h"

namespace jobq {

// main/jobq.cpp calls these functions to set up the mark in shared memory.
Size data_directory_size();
void make_data_directory(void *memory, bool fresh);

// Returns the mark that rows of jobq.identity must contain to be valid, or 0 if any mark is valid.
int64 data_directory_mark();

}  // namespace jobq
