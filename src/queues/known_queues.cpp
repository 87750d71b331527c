// See known_queues.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "queues/known_queues.h"

extern "C" {
#include "utils/varlena.h"
}

namespace jobq {

namespace {

Statement is_known = {
    R"(SELECT EXISTS (SELECT FROM jobq.lane_directory d WHERE d.queue = $1)
           OR EXISTS (SELECT FROM jobq.queue_settings s WHERE s.queue = $1)
           OR EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $1)
           OR EXISTS (SELECT FROM jobq.named_limit_settings l WHERE $1 = ANY (l.queues))
           OR EXISTS (SELECT FROM jobq.kind_settings k WHERE k.queue = $1)
           OR EXISTS (SELECT FROM jobq.queue_settings s WHERE s.dead_letter_queue = $1)
           OR EXISTS (SELECT FROM jobq.kind_settings k WHERE k.dead_letter_queue = $1))",
    {TEXTOID}};

// Selects the names of known queues for the hint that suggests a similar name. Selects at most a thousand names from
// each table, because finding a better suggestion is not worth more time. Reads only the first lane of each queue from
// the index, because some queues have thousands of lanes.
Statement known_names = {
    R"(WITH RECURSIVE used(queue, place) AS (
           (SELECT d.queue, 1 FROM jobq.lane_directory d ORDER BY d.queue LIMIT 1)
           UNION ALL
           SELECT (SELECT d.queue FROM jobq.lane_directory d WHERE d.queue > u.queue ORDER BY d.queue LIMIT 1), u.place + 1
           FROM used u WHERE u.queue IS NOT NULL AND u.place < 1000)
       (SELECT u.queue FROM used u WHERE u.queue IS NOT NULL)
       UNION (SELECT s.queue FROM jobq.queue_settings s LIMIT 1000)
       UNION (SELECT s.dead_letter_queue FROM jobq.queue_settings s WHERE s.dead_letter_queue IS NOT NULL LIMIT 1000)
       UNION (SELECT l.queue FROM jobq.limit_settings l LIMIT 1000)
       UNION (SELECT unnest(l.queues) FROM jobq.named_limit_settings l LIMIT 1000)
       UNION (SELECT k.queue FROM jobq.kind_settings k LIMIT 1000)
       UNION (SELECT k.dead_letter_queue FROM jobq.kind_settings k WHERE k.dead_letter_queue <> '' LIMIT 1000))",
    {},
    Planning::Free};

// Counts at most $1 queues with lanes and at most $1 queues with settings. Reads only the first lane of each queue from
// the index.
Statement count_queues = {
    R"(WITH RECURSIVE used(queue, place) AS (
           (SELECT d.queue, 1 FROM jobq.lane_directory d ORDER BY d.queue LIMIT 1)
           UNION ALL
           SELECT (SELECT d.queue FROM jobq.lane_directory d WHERE d.queue > u.queue ORDER BY d.queue LIMIT 1), u.place + 1
           FROM used u WHERE u.queue IS NOT NULL AND u.place < $1)
       SELECT count(*) FROM ((SELECT u.queue FROM used u WHERE u.queue IS NOT NULL)
                             UNION (SELECT s.queue FROM jobq.queue_settings s LIMIT $1)) n)",
    {INT8OID},
    Planning::Free};

int length_of(std::string_view name) { return pg_mbstrlen_with_len(name.data(), static_cast<int>(name.size())); }

// Returns the known name with the smallest edit distance to `name`. Considers only names whose distance is at most
// three and at most a third of the length of the longer of the two names. If several names share the smallest distance,
// returns the first of them in byte order. Returns an empty string if no name is close enough.
std::string_view nearest_name(std::string_view name, const QueueScope *scope) {
    constexpr int kMostChanges = 3;
    const Rows names = run(known_names, Params());
    const int length = length_of(name);
    int fewest = kMostChanges + 1;
    std::string_view nearest;
    for (uint64 i = 0; i < names.size(); i++) {
        const std::string_view known = names[i].text_at(1);
        if (!is_in_scope(scope, known)) continue;
        const int most = Min(Min(kMostChanges, fewest), Max(length, length_of(known)) / 3);
        const int changes = varstr_levenshtein_less_equal(name.data(), static_cast<int>(name.size()), known.data(),
                                                          static_cast<int>(known.size()), 1, 1, 1, most, true);
        if (changes > most || (changes == fewest && known > nearest)) continue;
        fewest = changes;
        nearest = known;
    }
    return nearest;
}

void warn(std::string_view name, const QueueScope *scope, bool only_if_near) {
    // Uses run() instead of read(), because the check must see the changes of the current statement.
    if (run(is_known, Params().add(PointerGetDatum(make_text(name))))[0].bool_at(1)) return;
    const std::string_view nearest = nearest_name(name, scope);
    if (nearest.empty() && only_if_near) return;
    ereport(NOTICE, (errmsg("queue \"%.*s\" has neither jobs nor settings", static_cast<int>(name.size()), name.data()),
                     nearest.empty() ? 0
                                     : errhint("Perhaps you meant the queue \"%.*s\".",
                                               static_cast<int>(nearest.size()), nearest.data())));
}

}  // namespace

bool queue_is_known(std::string_view name) {
    return read(is_known, Params().add(PointerGetDatum(make_text(name))))[0].bool_at(1);
}

void check_room_for_queue(std::string_view name) {
    const int most = settings.max_queues;
    if (most < 0 || MyBackendType == B_BG_WORKER) return;
    // Uses run() instead of read(), because the check must see the changes of the current statement.
    if (run(is_known, Params().add(PointerGetDatum(make_text(name))))[0].bool_at(1)) return;
    if (most > 0 && run(count_queues, Params().add(Int64GetDatum(most)))[0].int64_at(1) < most) return;
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("cannot create queue \"%.*s\" because the database already has %d or more queues",
                           static_cast<int>(name.size()), name.data(), most),
                    errhint("Check the name, or ask an operator to create the queue with jobq_create_queue(). The "
                            "setting \"jobq.max_queues\" limits the number of queues that new jobs can create.")));
}

void warn_of_unknown_queue(std::string_view name, const QueueScope *scope) { warn(name, scope, false); }

void warn_of_mistyped_queue(std::string_view name, const QueueScope *scope) { warn(name, scope, true); }

}  // namespace jobq
