// See log_lines.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/own_locks.h"
#include "compat/spi.h"
#include "finish/log_lines.h"
#include "table/table_in_use.h"

#include <algorithm>

namespace jobq {

namespace {

// Selects, for each id and lease, the attempt with this lease, and its last line. The lease of a running or completed
// job is in the job's row; the leases of other ended attempts are in jobq.attempts. One statement reads all of this
// under one snapshot, so it finds the attempt even if the attempt ends at the same time.
Statement find_attempts = {
    R"(SELECT u.id, u.lease, a.attempt, a.late, coalesce(l.number, 0), coalesce(l._bytes, 0), l.dropped IS NOT NULL,
              greatest(a.started_at, l.written_at)
       FROM unnest($1, $2) AS u(id, lease),
            LATERAL (SELECT j.attempts AS attempt, j.status = 'completed' AS late, j.started_at FROM jobq.jobs j
                     WHERE j.id = ANY (ARRAY[u.id]) AND )" IN_SCOPE("$3") R"(
                       AND u.lease = CASE j.status WHEN 'processing' THEN j.lease WHEN 'completed' THEN j._completed_lease END
                     UNION ALL
                     SELECT a.attempt, true, a.started_at FROM jobq.jobs j, jobq.attempts a
                     WHERE j.id = ANY (ARRAY[u.id]) AND )" IN_SCOPE("$3") R"(
                       AND a.job_id = ANY (ARRAY[u.id]) AND a.lease = u.lease) a
            LEFT JOIN LATERAL (SELECT l.number, l._bytes, l.dropped, l.written_at FROM jobq.log_lines l
                               WHERE l.job_id = u.id AND l.lease = u.lease ORDER BY l.number DESC LIMIT 1) l ON true)",
    {INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID}};

Statement insert_lines = {
    R"(INSERT INTO jobq.log_lines (job_id, lease, number, attempt, written_at, level, line, late, dropped, _bytes)
       SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10))",
    {INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, INT4ARRAYOID, TIMESTAMPTZARRAYOID, TEXTARRAYOID, TEXTARRAYOID,
     BOOLARRAYOID, INT4ARRAYOID, INT4ARRAYOID}};

// Adds to the number of dropped lines in the last line of an attempt.
Statement count_dropped = {
    R"(UPDATE jobq.log_lines l
       SET dropped = l.dropped + u.dropped, line = format($4, l.dropped + u.dropped)
       FROM unnest($1, $2, $3) AS u(job_id, lease, dropped)
       WHERE l.job_id = u.job_id AND l.lease = u.lease AND l.dropped IS NOT NULL)",
    {INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TEXTOID}};

// Adds a line to the lines of operators, which have the lease 0, and deletes the oldest of them.
Statement insert_operator_line = {
    R"(WITH added AS (
           INSERT INTO jobq.log_lines (job_id, lease, number, attempt, written_at, level, line)
           SELECT j.id, 0, coalesce((SELECT max(l.number) FROM jobq.log_lines l WHERE l.job_id = j.id AND l.lease = 0), 0) + 1,
                  j.attempts, $2, 'operator', $3
           FROM jobq.jobs j WHERE j.id = $1
           RETURNING job_id, number)
       DELETE FROM jobq.log_lines l USING added a WHERE l.job_id = a.job_id AND l.lease = 0 AND l.number <= a.number - $4)",
    {INT8OID, TIMESTAMPTZOID, TEXTOID, INT4OID}};

Statement delete_of = {"DELETE FROM jobq.log_lines l WHERE l.job_id = ANY ($1)", {INT8ARRAYOID}};
Statement delete_all = {"DELETE FROM jobq.log_lines", {}, Planning::Free};
Statement move = {"UPDATE jobq.log_lines l SET job_id = $2 WHERE l.job_id = $1", {INT8OID, INT8OID}};

// Selects jobs that have lines but no longer exist. Reads one index entry per job instead of one per line.
Statement find_orphans = {
    R"(WITH RECURSIVE with_lines(id) AS (
           (SELECT l.job_id FROM jobq.log_lines l WHERE l.job_id > $1 AND l.job_id <= $2 ORDER BY l.job_id LIMIT 1)
           UNION ALL
           SELECT (SELECT l.job_id FROM jobq.log_lines l WHERE l.job_id > w.id AND l.job_id <= $2 ORDER BY l.job_id LIMIT 1)
           FROM with_lines w WHERE w.id IS NOT NULL)
       SELECT w.id FROM with_lines w
       WHERE w.id IS NOT NULL AND NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[w.id])) LIMIT $3)",
    {INT8OID, INT8OID, INT8OID}};

// Makes transactions that write lines of the same attempt take turns, so that each of them counts the lines of the
// others, and the limits of an attempt are exact. A call with very many attempts takes one lock that conflicts with the
// locks of all other calls, so that it does not fill the lock table of the server.
void lock_attempts(const LoggedAttempt *attempts, int count) {
    constexpr int kMaxLocks = 1000;
    const LOCKTAG all = own_lock(OwnLock::AllLogLines, 0);
    LockAcquire(&all, count > kMaxLocks ? ExclusiveLock : RowExclusiveLock, false, false);
    for (int i = 0; count <= kMaxLocks && i < count; i++) {
        const LOCKTAG one = own_lock(OwnLock::LogLines, attempts[i].lease);
        LockAcquire(&one, ExclusiveLock, false, false);
    }
}

bool any_line() { return is_in_use("log_lines"); }

// Returns the attempt in `attempts` with this job and lease. `attempts` must be sorted, and must contain the attempt.
LoggedAttempt *attempt_of(LoggedAttempt *attempts, int count, int64 job, int64 lease) {
    return std::lower_bound(attempts, attempts + count, nullptr, [&](const LoggedAttempt &attempt, std::nullptr_t) {
        return attempt.job != job ? attempt.job < job : attempt.lease < lease;
    });
}

void look_up(LoggedAttempt *attempts, int count, const QueueScope *scope) {
    ArrayColumn jobs(count), leases(count);
    for (int i = 0; i < count; i++) {
        jobs.add(Int64GetDatum(attempts[i].job));
        leases.add(Int64GetDatum(attempts[i].lease));
    }
    // Uses the latest snapshot, so that it also sees the lines of a transaction for which lock_attempts() has waited.
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const Rows rows =
        read(find_attempts,
             Params().add(jobs.array(INT8OID)).add(leases.array(INT8OID)).add_if(scope != nullptr, scope_array(scope)),
             latest);
    UnregisterSnapshot(latest);
    for (uint64 i = 0; i < rows.size(); i++) {
        LoggedAttempt *attempt = attempt_of(attempts, count, rows[i].int64_at(1), rows[i].int64_at(2));
        attempt->known = true;
        attempt->number = rows[i].int32_at(3);
        attempt->late = rows[i].bool_at(4);
        attempt->before = {rows[i].int32_at(5), rows[i].int32_at(6), rows[i].bool_at(7)};
        attempt->not_before = rows[i].is_null(8) ? DT_NOBEGIN : DatumGetTimestampTz(rows[i].get(8));
    }
}

// The rows to insert.
struct NewLines {
    ArrayColumn jobs, leases, numbers, attempts, times, levels, lines, late, dropped, bytes;

    explicit NewLines(int room)
        : jobs(room),
          leases(room),
          numbers(room),
          attempts(room),
          times(room),
          levels(room),
          lines(room),
          late(room),
          dropped(room),
          bytes(room) {}

    // Adds the line after the lines in attempt.before. If `last` is true, the line counts dropped lines.
    void add(const LoggedAttempt &attempt, const LogLine &line, bool last) {
        const std::string_view level = core::kLogLevelNames[static_cast<int>(line.level)];
        jobs.add(Int64GetDatum(attempt.job));
        leases.add(Int64GetDatum(attempt.lease));
        numbers.add(Int32GetDatum(attempt.before.lines + (last ? 1 : 0)));
        attempts.add(Int32GetDatum(attempt.number));
        times.add(TimestampTzGetDatum(Max(line.written_at, attempt.not_before)));
        levels.add(PointerGetDatum(make_text(level)));
        lines.add(PointerGetDatum(line.line));
        late.add(BoolGetDatum(attempt.late));
        dropped.add_if(last, Int32GetDatum(0));
        bytes.add(Int32GetDatum(attempt.before.bytes));
    }

    void insert() const {
        if (jobs.count == 0) return;
        run(insert_lines, Params()
                              .add(jobs.array(INT8OID))
                              .add(leases.array(INT8OID))
                              .add(numbers.array(INT4OID))
                              .add(attempts.array(INT4OID))
                              .add(times.array(TIMESTAMPTZOID))
                              .add(levels.array(TEXTOID))
                              .add(lines.array(TEXTOID))
                              .add(late.array(BOOLOID))
                              .add(dropped.array(INT4OID))
                              .add(bytes.array(INT4OID)));
    }
};

void add_dropped(const LoggedAttempt *attempts, int count) {
    ArrayColumn jobs(count), leases(count), dropped(count);
    for (int i = 0; i < count; i++) {
        if (attempts[i].dropped == 0) continue;
        jobs.add(Int64GetDatum(attempts[i].job));
        leases.add(Int64GetDatum(attempts[i].lease));
        dropped.add(Int32GetDatum(attempts[i].dropped));
    }
    if (jobs.count == 0) return;
    const char *text =
        psprintf("lines dropped after this point: %%s (an attempt can store at most %d lines and %d bytes)",
                 core::kMaxLogLines, core::kMaxLogBytes);
    run(count_dropped, Params()
                           .add(jobs.array(INT8OID))
                           .add(leases.array(INT8OID))
                           .add(dropped.array(INT4OID))
                           .add(CStringGetTextDatum(text)));
}

}  // namespace

void write_log_lines(const LogLine *lines, int count, LoggedAttempt *attempts, int attempt_count,
                     const QueueScope *scope) {
    lock_attempts(attempts, attempt_count);
    look_up(attempts, attempt_count, scope);
    NewLines added(count + attempt_count);  // an attempt gets at most one line that counts dropped lines
    for (int i = 0; i < count; i++) {
        LoggedAttempt *attempt = attempt_of(attempts, attempt_count, lines[i].job, lines[i].lease);
        if (!attempt->known) continue;
        const bool was_full = attempt->before.full;
        if (core::store_line(&attempt->before, view(lines[i].line).size())) {
            added.add(*attempt, lines[i], false);
            attempt->stored++;
            continue;
        }
        if (!was_full) added.add(*attempt, {0, 0, make_text(""), core::LogLevel::Warning, lines[i].written_at}, true);
        attempt->dropped++;
    }
    added.insert();
    add_dropped(attempts, attempt_count);
}

void write_operator_line(int64 job, const char *change, const char *detail, TimestampTz now) {
    const char *user = GetUserNameFromId(GetSessionUserId(), true);
    const char *line = psprintf("%s by %s%s", change, user == nullptr ? "a role that no longer exists" : user, detail);
    run(insert_operator_line, Params()
                                  .add(Int64GetDatum(job))
                                  .add(TimestampTzGetDatum(now))
                                  .add(CStringGetTextDatum(line))
                                  .add(Int32GetDatum(core::kMaxOperatorLines)));
}

void delete_log_lines(Datum *ids, int count) {
    if (count > 0 && any_line()) run(delete_of, Params().add(array_of(ids, count, INT8OID)));
}

void delete_all_log_lines() {
    if (any_line()) run(delete_all, Params());
}

void move_log_lines(int64 from, int64 to) {
    if (any_line()) run(move, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
}

void prune_log_lines(int64 after, int64 last, int batch) {
    if (!any_line()) return;
    const Rows orphans =
        run(find_orphans, Params().add(Int64GetDatum(after)).add(Int64GetDatum(last)).add(Int64GetDatum(batch)));
    const int count = static_cast<int>(orphans.size());
    ArrayColumn ids(count);
    for (int i = 0; i < count; i++) ids.add(orphans[i].get(1));
    delete_log_lines(ids.values, ids.count);
}

}  // namespace jobq
