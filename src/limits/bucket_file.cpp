// See bucket_file.h. These functions do not raise errors, because the postmaster calls them.
#include "compat/pg.h"

#include "compat/settings.h"
#include "limits/bucket_file.h"

#include <sys/stat.h>
#include <unistd.h>

extern "C" {
#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "pgstat.h"
#include "storage/fd.h"
}

namespace jobq {

namespace {

constexpr const char kFile[] = PG_STAT_TMP_DIR "/jobq.buckets";
constexpr const char kNewFile[] = PG_STAT_TMP_DIR "/jobq.buckets.tmp";
// Version of the file format. Change it when the layout changes or limits are assigned to sets in a different way.
constexpr uint64 kFormat = 0x6a6f627101;
constexpr int32 kNoMoreSets = -1;

struct Header {
    uint64 format;
    uint64 system;
    XLogRecPtr checkpoint;  // InvalidXLogRecPtr if the server was not shut down cleanly
    uint64 inode;           // inode of this file, so that a copy of the file is not valid
    int64 max_limits;
    TimestampTz written_at;
    TimestampTz since;
};

bool exists(const char *name) {
    struct stat found;
    return stat(name, &found) == 0;
}

Header header_of(FILE *file) {
    Header header = {};
    struct stat found;
    bool valid;
    const ControlFileData *control = get_controlfile(DataDir, &valid);
    if (!valid || control->state != DB_SHUTDOWNED || fstat(fileno(file), &found) != 0) return header;
    header.format = kFormat;
    header.system = control->system_identifier;
    header.checkpoint = control->checkPoint;
    header.inode = found.st_ino;
    header.max_limits = settings.max_limits;
    header.written_at = GetCurrentTimestamp();
    return header;
}

// Returns whether the server is starting as a standby or from a backup. In either case, the buckets in the file are not
// valid: a standby does not see the tokens that its primary spends, and a backup does not contain the tokens that were
// spent after it was taken.
bool will_recover() { return exists(STANDBY_SIGNAL_FILE) || exists(RECOVERY_SIGNAL_FILE) || exists(BACKUP_LABEL_FILE); }

bool is_valid(const Header &read, const Header &now) {
    return now.checkpoint != InvalidXLogRecPtr && read.format == now.format && read.system == now.system &&
           read.checkpoint == now.checkpoint && read.inode == now.inode && read.max_limits == now.max_limits &&
           read.written_at <= now.written_at;  // otherwise, the clock was set back
}

template <typename Record>
bool read_record(FILE *file, Record *record) {
    return fread(record, sizeof(*record), 1, file) == 1;
}

template <typename Record>
bool write_record(FILE *file, const Record &record) {
    return fwrite(&record, sizeof(record), 1, file) == 1;
}

TimestampTz read_sets(FILE *file, void (*keep)(const KeptSet &set)) {
    Header header;
    if (!read_record(file, &header) || !is_valid(header, header_of(file))) return 0;
    KeptSet set;
    while (read_record(file, &set)) {
        if (set.set == kNoMoreSets) return header.since;
        keep(set);
    }
    return 0;
}

}  // namespace

void write_bucket_file(TimestampTz since, bool (*write)(FILE *file)) {
    FILE *file = AllocateFile(kNewFile, PG_BINARY_W);
    bool written = file != nullptr;
    if (written) {
        Header header = header_of(file);
        header.since = since;
        KeptSet last = {};
        last.set = kNoMoreSets;
        written = write_record(file, header) && write(file) && write_record(file, last);
        written = FreeFile(file) == 0 && written;
    }
    if (written && durable_rename(kNewFile, kFile, LOG) == 0) return;
    ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", kFile),
                  errdetail("After the next start of the server, all rate limits begin without tokens.")));
}

bool write_kept_set(FILE *file, const KeptSet &set) { return write_record(file, set); }

TimestampTz read_bucket_file(void (*keep)(const KeptSet &set)) {
    FILE *file = AllocateFile(kFile, PG_BINARY_R);
    if (file == nullptr) return 0;
    const TimestampTz since = will_recover() ? 0 : read_sets(file, keep);
    FreeFile(file);
    durable_unlink(kFile, LOG);
    return since;
}

}  // namespace jobq
