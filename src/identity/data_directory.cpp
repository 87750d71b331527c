// See data_directory.h. No function in this file raises an error, so that the server starts even if the file that
// contains the mark cannot be read or written.
#include "compat/pg.h"

#include "identity/data_directory.h"
#include "identity/identity_policy.h"

#include <sys/stat.h>

extern "C" {
#include "access/xlog.h"
#include "pgstat.h"
#include "storage/fd.h"
}

namespace jobq {

namespace {

constexpr const char kFile[] = PG_STAT_TMP_DIR "/jobq.mark";
constexpr const char kNewFile[] = PG_STAT_TMP_DIR "/jobq.mark.tmp";
constexpr const char kFormat[] = "jobq mark %llu\n";

struct SharedMark {
    int64 mark;
};
SharedMark *shared = nullptr;

bool is_there(const char *name) {
    struct stat found;
    return stat(name, &found) == 0;
}

core::DataDirectory look() {
    return {is_there(STANDBY_SIGNAL_FILE), is_there(BACKUP_LABEL_FILE) || is_there(RECOVERY_SIGNAL_FILE)};
}

// Returns the mark in the file, or 0 if the file does not exist or cannot be read.
int64 read_mark() {
    FILE *file = AllocateFile(kFile, PG_BINARY_R);
    if (file == nullptr) return 0;
    unsigned long long mark = 0;
    if (fscanf(file, kFormat, &mark) != 1) mark = 0;
    FreeFile(file);
    return static_cast<int64>(mark);
}

void write_mark(int64 mark) {
    FILE *file = AllocateFile(kNewFile, PG_BINARY_W);
    const bool written = file != nullptr && fprintf(file, kFormat, static_cast<unsigned long long>(mark)) > 0;
    const bool closed = file != nullptr && FreeFile(file) == 0;
    if (written && closed && durable_rename(kNewFile, kFile, LOG) == 0) return;
    ereport(
        LOG,
        (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", kFile),
         errdetail("After the next start of the server, jobq may mistake a restored base backup for the original.")));
}

int64 new_mark() {
    int64 mark;
    if (!pg_strong_random(&mark, sizeof(mark))) mark = GetCurrentTimestamp();
    mark &= PG_INT64_MAX;
    return mark == 0 ? 1 : mark;
}

int64 mark_at_start() {
    const core::MarkChange change = core::change_of_mark(look());
    const int64 before = read_mark();
    int64 mark = 0;
    if (change == core::MarkChange::Keep) mark = before;
    if (change == core::MarkChange::Renew) {
        mark = new_mark();
        ereport(LOG, (errmsg("jobq: the data directory is a restored base backup"),
                      errdetail("Jobs do not run until they are adopted."),
                      errhint("Run SELECT jobq_adopt() in each database whose jobs must run here.")));
    }
    if (mark != before) write_mark(mark);
    return mark;
}

}  // namespace

Size data_directory_size() { return sizeof(SharedMark); }

void make_data_directory(void *memory, bool fresh) {
    shared = static_cast<SharedMark *>(memory);
    if (fresh) shared->mark = mark_at_start();
}

int64 data_directory_mark() { return shared == nullptr ? 0 : shared->mark; }

}  // namespace jobq
