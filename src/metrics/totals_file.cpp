// See totals_file.h. The postmaster reads and writes it, and raises no error: it starts and ends whatever becomes of
// the file.
#include "compat/pg.h"

#include "identity/data_directory.h"
#include "metrics/totals.h"
#include "metrics/totals_file.h"

extern "C" {
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/ipc.h"
}

#include <type_traits>
#include <unistd.h>

namespace jobq {

namespace {

constexpr char kFile[] = PGSTAT_STAT_PERMANENT_DIRECTORY "/jobq.metrics";
constexpr char kNewFile[] = PGSTAT_STAT_PERMANENT_DIRECTORY "/jobq.metrics.tmp";

// What other files, other releases and other machines do not have.
struct Header {
    uint32 magic;
    uint32 format;
    uint32 numbers;
    uint32 series_size;
};
constexpr Header kHeader = {0x71626f6aU, 1, core::SeriesNumbers::kCount, sizeof(Series)};

// ---- writing

struct Writer {
    FILE *file;
    pg_crc32c crc;
    bool failed;

    void write(const void *data, Size size) {
        COMP_CRC32C(crc, data, size);
        failed |= fwrite(data, size, 1, file) != 1;
    }
};

template <typename Item>
void write_item(void *to, const Item &item) {
    static_assert(std::has_unique_object_representations_v<Item>, "no gaps, which could hold anything");
    static_cast<Writer *>(to)->write(&item, sizeof(item));
}

bool write_file(Writer *writer) {
    INIT_CRC32C(writer->crc);
    write_item(writer, kHeader);
    store_totals(writer, write_item<StoredDatabase>, write_item<Series>);
    write_item(writer, StoredDatabase{});
    FIN_CRC32C(writer->crc);
    const pg_crc32c crc = writer->crc;
    writer->failed |= fwrite(&crc, sizeof(crc), 1, writer->file) != 1;
    return !writer->failed;
}

// An immediate shutdown ends with code 0 as well, but leaves what only recovery puts in order. A standby has no totals.
bool shut_down_in_order() {
    bool valid;
    const ControlFileData *control = get_controlfile(DataDir, &valid);
    return valid && control->state == DB_SHUTDOWNED;
}

void leave_totals(int code, Datum) {
    if (code != 0 || !shut_down_in_order()) return;
    Writer writer = {AllocateFile(kNewFile, PG_BINARY_W), 0, false};
    const bool written = writer.file != nullptr && write_file(&writer);
    const bool closed = writer.file != nullptr && FreeFile(writer.file) == 0;
    if (written && closed && durable_rename(kNewFile, kFile, LOG) == 0) return;
    ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", kNewFile),
                  errdetail("The totals of jobq_metrics() will begin anew.")));
    unlink(kNewFile);
}

// ---- reading

struct Reader {
    FILE *file;
    pg_crc32c crc;

    bool read(void *data, Size size) {
        if (fread(data, size, 1, file) != 1) return false;
        COMP_CRC32C(crc, data, size);
        return true;
    }
};

bool is_ended(Reader *reader) {
    pg_crc32c stored;
    FIN_CRC32C(reader->crc);
    return fread(&stored, sizeof(stored), 1, reader->file) == 1 && EQ_CRC32C(stored, reader->crc);
}

bool read_file(FILE *file) {
    Reader reader = {file, 0};
    INIT_CRC32C(reader.crc);
    Header header;
    if (!reader.read(&header, sizeof(header)) || memcmp(&header, &kHeader, sizeof(header)) != 0) return false;
    for (;;) {
        StoredDatabase database;
        if (!reader.read(&database, sizeof(database))) return false;
        if (database.database == InvalidOid) return is_ended(&reader);
        enter_stored_database(database);
        for (int i = 0; i < database.series; i++) {
            Series series;
            if (!reader.read(&series, sizeof(series)) || series.name.queue_bytes == 0 ||
                series.name.queue_bytes > core::kMaxQueueBytes)
                return false;
            enter_stored_series(database.database, series);
        }
    }
}

void enter_file() {
    FILE *file = AllocateFile(kFile, PG_BINARY_R);
    if (file == nullptr) {
        if (errno != ENOENT) ereport(LOG, (errcode_for_file_access(), errmsg("could not read file \"%s\": %m", kFile)));
        return;
    }
    if (!read_file(file)) {
        forget_all_totals();
        ereport(LOG,
                (errcode(ERRCODE_DATA_CORRUPTED), errmsg("jobq: file \"%s\" is not of this release, or damaged", kFile),
                 errdetail("The totals of jobq_metrics() begin anew.")));
    }
    FreeFile(file);
}

}  // namespace

void keep_totals_in_file() {
    // Nobody who is not the postmaster makes the shared memory, nor ends it.
    on_shmem_exit(leave_totals, Datum(0));
    unlink(kNewFile);
    if (data_directory_goes_on()) enter_file();
    unlink(kFile);
}

}  // namespace jobq
