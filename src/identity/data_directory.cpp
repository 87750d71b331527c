// See data_directory.h. The file says its own inode, which a copy of it has not, and the mark. No error is raised: a
// server starts, whatever becomes of the file.
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
constexpr const char kFormat[] = "jobq 1 inode %llu mark %llu\n";

struct SharedMark {
    int64 mark;
};
SharedMark *shared = nullptr;
bool goes_on = false;

bool is_there(const char *name) {
    struct stat found;
    return stat(name, &found) == 0;
}

unsigned long long inode_of(FILE *file) {
    struct stat found;
    return fstat(fileno(file), &found) == 0 ? static_cast<unsigned long long>(found.st_ino) : 0;
}

core::DataDirectory look(int64 *mark) {
    core::DataDirectory found = {};
    found.follows = is_there(STANDBY_SIGNAL_FILE);
    found.from_backup = is_there(BACKUP_LABEL_FILE) || is_there(RECOVERY_SIGNAL_FILE);
    FILE *file = AllocateFile(kFile, PG_BINARY_R);
    if (file == nullptr) return found;
    unsigned long long inode = 0;
    unsigned long long written = 0;
    found.has_mark = fscanf(file, kFormat, &inode, &written) == 2;
    found.same_file = found.has_mark && inode == inode_of(file);
    *mark = static_cast<int64>(written);
    FreeFile(file);
    return found;
}

void write_mark(int64 mark) {
    FILE *file = AllocateFile(kNewFile, PG_BINARY_W);
    const bool written =
        file != nullptr && fprintf(file, kFormat, inode_of(file), static_cast<unsigned long long>(mark)) > 0;
    const bool closed = file != nullptr && FreeFile(file) == 0;
    if (written && closed && durable_rename(kNewFile, kFile, LOG) == 0) return;
    ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", kFile),
                  errdetail("At the next start jobq may take a restored base backup for the original.")));
}

int64 new_mark() {
    int64 mark;
    if (!pg_strong_random(&mark, sizeof(mark))) mark = GetCurrentTimestamp();
    mark &= PG_INT64_MAX;
    return mark == 0 ? 1 : mark;
}

int64 mark_at_start() {
    int64 mark = 0;
    const core::DataDirectory found = look(&mark);
    const core::MarkChange change = core::change_of_mark(found);
    goes_on = !found.follows && change != core::MarkChange::Renew;
    switch (change) {
        case core::MarkChange::Keep:
            return mark;
        case core::MarkChange::Clear:
            if (found.same_file && mark == 0) return mark;
            mark = 0;
            break;
        case core::MarkChange::Renew:
            mark = new_mark();
            ereport(LOG, (errmsg("jobq: the data directory is a restored base backup, or another copy"),
                          errdetail("Jobs are left alone until they are adopted."),
                          errhint("In each database that shall run its jobs here: SELECT jobq_adopt().")));
            break;
    }
    write_mark(mark);
    return mark;
}

}  // namespace

Size data_directory_size() { return sizeof(SharedMark); }

void make_data_directory(void *memory, bool fresh) {
    shared = static_cast<SharedMark *>(memory);
    if (fresh) shared->mark = mark_at_start();
}

int64 data_directory_mark() { return shared == nullptr ? 0 : shared->mark; }

bool data_directory_goes_on() { return goes_on; }

}  // namespace jobq
