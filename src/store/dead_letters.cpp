// See dead_letters.h.
#include "pg/pg.h"

#include "pg/args.h"
#include "pg/memory.h"
#include "pg/spi.h"
#include "shared/counting.h"
#include "store/dead_letters.h"
#include "store/directory.h"
#include "store/groups.h"
#include "store/lanes.h"
#include "store/rows.h"

namespace jobq {

namespace {

enum LetterColumn { kLetterId = 1, kLetterQueue, kLetterFrom, kLetterKind, kLetterVersion, kLetterRequires };

Statement read_letters = {
    R"(SELECT j.id, j.queue, j.dead_from, j.kind, j.version, j.requires FROM jobq.jobs j
       WHERE j.id = ANY ($1) ORDER BY j.id)",
    {INT8ARRAYOID}};

Statement move = {
    "UPDATE jobq.jobs j SET queue = u.queue, lane = u.lane, dead_from = u.dead_from, "
    "group_waiting = CASE WHEN j.group_waiting IS NOT NULL THEN jobq.group_of(u.queue, j.group_key) END, "
    "turn = CASE WHEN u.in_turns THEN jobq.turn_of(j.concurrency_key) END "
    "FROM unnest($1, $2, $3, $4, $5, $6) AS u(id, queue, lane, dead_from, left_queue, in_turns) "
    "WHERE j.id = ANY (ARRAY[u.id]) "
    "RETURNING " READY_COLUMNS ", j.status::text, u.left_queue, j.group_waiting",
    {INT8ARRAYOID, TEXTARRAYOID, INT8ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, BOOLARRAYOID}};

Statement clear_origin = {"UPDATE jobq.jobs j SET dead_from = NULL WHERE j.id = $1", {INT8OID}};

enum class Direction { Away, Home };

// Where the job goes; nullptr: nowhere.
text *destination(const Row &letter, Direction direction) {
    if (direction == Direction::Home)
        return letter.is_null(kLetterFrom) ? nullptr : DatumGetTextPP(letter.get(kLetterFrom));
    const std::string_view queue = find_queue(letter.text_at(kLetterQueue))->dead_letter_queue;
    return queue.empty() ? nullptr : make_text(queue);
}

void move_letters(Datum job_ids, Direction direction) {
    const Rows letters = run(read_letters, Params().add(job_ids));
    Datum *ids = room_for<Datum>(letters.size()), *queues = room_for<Datum>(letters.size()),
          *lanes = room_for<Datum>(letters.size()), *left = room_for<Datum>(letters.size()),
          *in_turns = room_for<Datum>(letters.size());
    auto *at_home = room_for<bool>(letters.size());
    int count = 0;
    for (uint64 i = 0; i < letters.size(); i++) {
        const Row letter = letters[i];
        text *queue = destination(letter, direction);
        if (queue == nullptr) continue;
        ids[count] = letter.get(kLetterId);
        queues[count] = PointerGetDatum(queue);
        lanes[count] = Int64GetDatum(
            ensure_lane(view(queue), letter.text_at(kLetterKind), letter.int32_at(kLetterVersion),
                        letter.is_null(kLetterRequires) ? nullptr : DatumGetArrayTypeP(letter.get(kLetterRequires))));
        in_turns[count] = BoolGetDatum(find_queue(view(queue))->round_robin);
        at_home[count] = direction == Direction::Home;
        left[count++] = letter.get(kLetterQueue);
    }
    if (count == 0) return;
    const Rows moved = run(move, Params()
                                     .add(array_of(ids, count, INT8OID))
                                     .add(array_of(queues, count, TEXTOID))
                                     .add(array_of(lanes, count, INT8OID))
                                     .add(array_of(left, at_home, count, TEXTOID))
                                     .add(array_of(left, count, TEXTOID))
                                     .add(array_of(in_turns, count, BOOLOID)));
    require_affected(count);
    publish_ready_rows(moved, 1);
    publish_waiting_rows(moved, 1, 8);
    for (uint64 i = 0; i < moved.size(); i++) {
        const core::JobStatus status = status_at(moved[i], 6);
        count_move_at_commit(moved[i].text_at(7), status, moved[i].text_at(2), status);
    }
}

}  // namespace

void bury_jobs(Datum ids) { move_letters(ids, Direction::Away); }

void send_home(Datum ids) { move_letters(ids, Direction::Home); }

void forget_origin(int64 id) { run(clear_origin, Params().add(Int64GetDatum(id))); }

}  // namespace jobq
