// Collects the samples that do not belong to a queue: schedules, batches, shared memory, background workers, and
// versions.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "compat/spi.h"
#include "identity/identity.h"
#include "metrics/samples.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

extern "C" {
#include "access/xlog.h"
}

namespace jobq {

namespace {

using core::Family;

void (*add_executors)(Samples *samples) = nullptr;

// Selects the numbers of failing, paused, and active schedules, the earliest due time, and the total number of skipped
// runs.
Statement count_schedules = {
    R"(SELECT count(*) FILTER (WHERE s.error IS NOT NULL), count(*) FILTER (WHERE s.paused AND s.error IS NULL),
              count(*) FILTER (WHERE NOT s.paused AND s.error IS NULL),
              min(s.next_run), coalesce(sum(s.skipped), 0)::float8
       FROM jobq.schedule_settings s)",
    {},
    Planning::Free};

// Selects the numbers of open, sealed, failing, and finished batches, without counting their members.
Statement count_batches = {
    R"(SELECT count(*) FILTER (WHERE b.sealed_at IS NULL),
              count(*) FILTER (WHERE b.sealed_at IS NOT NULL AND b.error IS NULL),
              count(*) FILTER (WHERE b.error IS NOT NULL),
              (SELECT count(*) FROM jobq.batch_settings f WHERE f.finished_at IS NOT NULL)
       FROM jobq.batch_settings b WHERE b.finished_at IS NULL)",
    {}};

Statement get_version = {"SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'jobq'", {}};

// Adds a sample for each state. The first columns of the row are the numbers of things in these states.
template <size_t N>
void add_states(Samples *samples, Family family, const Row &row, const char *const (&states)[N]) {
    for (int i = 0; i < static_cast<int>(N); i++)
        samples->add(sample_of(family, static_cast<double>(row.int64_at(i + 1))).with("state", states[i]));
}

void add_schedules(Samples *samples) {
    const Row row = read(count_schedules, Params())[0];
    add_states(samples, Family::Schedules, row, {"failing", "paused", "active"});
    samples->gauge(Family::SchedulesOverdue, row.is_null(4) ? 0 : seconds_since(DatumGetTimestampTz(row.get(4))));
    samples->gauge(Family::RunsSkipped, DatumGetFloat8(row.get(5)));
}

void add_batches(Samples *samples) {
    add_states(samples, Family::Batches, read(count_batches, Params())[0], {"open", "sealed", "failing", "finished"});
}

void add_duties(Samples *samples) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    auto *steps = static_cast<StepReport *>(palloc(sizeof(StepReport) * kStepCount));
    LWLockAcquire(database_states_lock(), LW_SHARED);
    memcpy(steps, db->steps, sizeof(StepReport) * kStepCount);
    const TimestampTz due = db->in_round ? db->round_due : due_of(db);
    const int64 rounds = db->rounds;
    LWLockRelease(database_states_lock());
    const core::Micros late = due == kNothingDue ? 0 : core::saturating_subtract(GetCurrentTimestamp(), due);
    samples->gauge(Family::RoundOverdue, Max(static_cast<double>(late) / core::kSecond, 0));
    samples->gauge(Family::Rounds, static_cast<double>(rounds));
    for (int i = 0; i < core::kDutyCount; i++) {
        const char *name = core::kDuties[i].name;
        samples->add(sample_of(Family::DutyJobs, static_cast<double>(steps[i].done)).with("duty", name));
        samples->add(sample_of(Family::DutyFailures, steps[i].failures).with("duty", name));
    }
}

void add_shared_memory(Samples *samples) {
    for (const SharedPart &part : shared_parts()) {
        const SharedUsage usage = part.usage == nullptr ? SharedUsage{} : part.usage();
        if (usage.capacity == 0) continue;
        const char *name = part.name + strlen("jobq ");
        const auto add = [&](Family family, int64 value) {
            samples->add(sample_of(family, static_cast<double>(value)).with("part", name));
        };
        add(Family::SharedMemoryEntries, usage.entries);
        add(Family::SharedMemoryCapacity, usage.capacity);
        if (usage.evictions != kNeverEvicts) add(Family::SharedMemoryEvictions, usage.evictions);
    }
}

void add_versions(Samples *samples) {
    const Rows rows = read(get_version, Params());
    Sample sample = sample_of(Family::Info, 1);
    if (rows.size() > 0) sample.with("version", keep(CurrentMemoryContext, rows[0].text_at(1)));
    samples->add(sample.with("library", kLibraryVersion).with("preloaded", shared_memory_ready() ? "true" : "false"));
}

}  // namespace

void collect_executors_with(void (*collect)(Samples *samples)) { add_executors = collect; }

void collect_server(Samples *samples) {
    add_schedules(samples);
    add_batches(samples);
    samples->gauge(Family::Copy, leaves_jobs_alone() ? 1 : 0);
    add_versions(samples);
    // No launcher, background workers, or executors run on a standby.
    if (!shared_memory_ready() || RecoveryInProgress()) return;
    add_executors(samples);
    add_shared_memory(samples);
    samples->gauge(Family::LauncherUp, shared_state()->launcher_pid != 0 ? 1 : 0);
    add_duties(samples);
}

}  // namespace jobq
