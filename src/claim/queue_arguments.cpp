// See queue_arguments.h.
#include "compat/pg.h"

#include "claim/queue_arguments.h"
#include "compat/memory.h"
#include "core/queue_pattern.h"
#include "lanes/queue_names.h"
#include "metrics/recent_filters.h"
#include "queues/directory.h"

extern "C" {
#include "common/pg_prng.h"
}

#include <algorithm>
#include <tuple>

namespace jobq {

namespace {

Names names_argument(FunctionCallInfo fcinfo, int n, const char *name, size_t limit_bytes) {
    if (n < 0 || !given(fcinfo, n)) return {nullptr, 0};
    return names_of(PG_GETARG_ARRAYTYPE_P(n), name, limit_bytes, core::kMaxNames);
}

void check_patterns(const Names &patterns) {
    for (int i = 0; i < patterns.count; i++) {
        check_name(patterns.items[i], {"patterns", i + 1}, core::kMaxPatternBytes, false);
        if (core::is_whole_pattern(patterns.items[i])) continue;
        ereport(ERROR, (errcode(ERRCODE_INVALID_ESCAPE_SEQUENCE),
                        errmsg("element %d of argument \"patterns\" must not end with a single backslash", i + 1),
                        errhint("A backslash makes the next character of a pattern ordinary. Write two backslashes to "
                                "match a backslash.")));
    }
}

// Returns an array with one number for each queue and pattern, or nullptr if the argument is NULL.
const int32 *numbers_argument(FunctionCallInfo fcinfo, int n, const char *name, int least, const char *hint,
                              int count) {
    if (n < 0 || !given(fcinfo, n)) return nullptr;
    const Elements elements = require_elements(fcinfo, n, INT4OID, name, 2 * core::kMaxNames);
    if (elements.count != count)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("argument \"%s\" must have %d elements, not %d", name, count, elements.count),
                        errhint("Pass one element for each queue, followed by one element for each pattern.")));
    int32 *numbers = allocate_array<int32>(static_cast<uint64>(count));
    for (int i = 0; i < count; i++) {
        numbers[i] = DatumGetInt32(elements.values[i]);
        if (numbers[i] < least)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("element %d of argument \"%s\" must be at least %d, not %d", i + 1, name, least,
                                   numbers[i]),
                            errhint("%s", hint)));
    }
    return numbers;
}

// Removes queues that are listed more than once, except for the first of each.
void remove_duplicates(SelectedQueues *queues) {
    SelectedQueue *end = queues->items + queues->count;
    std::sort(queues->items, end, [](const SelectedQueue &a, const SelectedQueue &b) {
        return std::tie(a.name, a.entry) < std::tie(b.name, b.entry);
    });
    end = std::unique(queues->items, end,
                      [](const SelectedQueue &a, const SelectedQueue &b) { return a.name == b.name; });
    std::sort(queues->items, end, [](const SelectedQueue &a, const SelectedQueue &b) { return a.entry < b.entry; });
    queues->count = static_cast<int>(end - queues->items);
}

void add_matching_queues(const QueueArguments &arguments, const QueueScope *scope, SelectedQueues *queues) {
    const Names all = names_of_all_queues();
    bool *left_out = static_cast<bool *>(palloc0(static_cast<Size>(Max(all.count, 1))));
    for (int i = 0; i < queues->named; i++) {
        const auto *found = std::lower_bound(all.items, all.items + all.count, queues->items[i].name);
        if (found != all.items + all.count && *found == queues->items[i].name) left_out[found - all.items] = true;
    }
    for (int i = 0; i < all.count; i++) left_out[i] |= !is_in_scope(scope, all.items[i]);
    auto *items = allocate_array<SelectedQueue>(static_cast<uint64>(queues->count) + static_cast<uint64>(all.count));
    std::copy(queues->items, queues->items + queues->count, items);
    queues->items = items;
    for (int p = 0; p < arguments.patterns.count; p++)
        for (int i = 0; i < all.count; i++) {
            if (left_out[i] || !core::matches_pattern(arguments.patterns.items[p], all.items[i], pg_mblen)) continue;
            left_out[i] = true;
            // Copies the name, because the list of all names can change before the claim ends.
            items[queues->count++] = {keep(CurrentMemoryContext, all.items[i]), arguments.queues.count + p};
        }
}

void put_in_random_order(const QueueArguments &arguments, SelectedQueues *queues) {
    struct Place {
        double place;
        SelectedQueue queue;
    };
    auto *places = allocate_array<Place>(static_cast<uint64>(queues->count));
    for (int i = 0; i < queues->count; i++)
        places[i] = {core::place_in_random_order(pg_prng_double(&pg_global_prng_state),
                                                 arguments.weights[queues->items[i].entry]),
                     queues->items[i]};
    std::sort(places, places + queues->count, [](const Place &a, const Place &b) { return a.place < b.place; });
    for (int i = 0; i < queues->count; i++) queues->items[i] = places[i].queue;
}

}  // namespace

QueueArguments queue_arguments(FunctionCallInfo fcinfo, const QueueArgumentPositions &at) {
    QueueArguments arguments = {};
    if (!given(fcinfo, at.queues) && !given(fcinfo, at.patterns))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("arguments \"queues\" and \"patterns\" must not both be NULL"),
                        errhint("Pass the names of queues, patterns, or both.")));
    arguments.queues = names_argument(fcinfo, at.queues, "queues", core::kMaxQueueBytes);
    const QueueScope *scope = scope_of(fcinfo);
    for (int i = 0; i < arguments.queues.count; i++) {
        check_queue_name(arguments.queues.items[i], {"queues", i + 1});
        check_scope(scope, arguments.queues.items[i]);
    }
    arguments.patterns = names_argument(fcinfo, at.patterns, "patterns", core::kMaxPatternBytes);
    check_patterns(arguments.patterns);
    const int count = arguments.queues.count + arguments.patterns.count;
    arguments.weights =
        numbers_argument(fcinfo, at.weights, "weights", 1,
                         "A queue with the weight 3 is three times as likely to be the first as a queue "
                         "with the weight 1.",
                         count);
    arguments.batches = numbers_argument(fcinfo, at.batches, "batches", 0,
                                         "Pass the maximum number of jobs of each queue. 0 excludes the queue.", count);
    if (at.oldest_first >= 0) {
        require(fcinfo, at.oldest_first, "oldest_first");
        arguments.oldest_first = PG_GETARG_BOOL(at.oldest_first);
    }
    if (arguments.oldest_first && arguments.weights != nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("arguments \"weights\" and \"oldest_first\" cannot be combined"),
                        errhint("Omit one of the arguments.")));
    return arguments;
}

SelectedQueues select_queues(const QueueArguments &arguments, const QueueScope *scope) {
    SelectedQueues queues = {allocate_array<SelectedQueue>(static_cast<uint64>(arguments.queues.count)),
                             arguments.queues.count, 0};
    for (int i = 0; i < arguments.queues.count; i++) queues.items[i] = {arguments.queues.items[i], i};
    remove_duplicates(&queues);
    queues.named = queues.count;
    if (arguments.patterns.count > 0) add_matching_queues(arguments, scope, &queues);
    return queues;
}

int batch_of(const QueueArguments &arguments, const SelectedQueue &queue, int batch) {
    return arguments.batches == nullptr ? batch : Min(batch, arguments.batches[queue.entry]);
}

int claim_selected(const ClaimRequest &request, const QueueArguments &arguments, const QueueScope *scope,
                   ClaimSink *sink) {
    SelectedQueues queues = select_queues(arguments, scope);
    for (int i = 0; i < queues.named; i++) require_known_queue(queues.items[i].name);
    if (request.batch == 0) return 0;
    if (arguments.weights != nullptr) put_in_random_order(arguments, &queues);
    const TimestampTz now = GetCurrentTimestamp();
    auto *parts = allocate_array<QueueToClaim>(static_cast<uint64>(queues.count));
    int count = 0;
    for (int i = 0; i < queues.count; i++) {
        const int batch = batch_of(arguments, queues.items[i], request.batch);
        if (batch == 0) continue;
        note_filter(queues.items[i].name, request.filter, now);
        parts[count++] = {queues.items[i].name, batch};
    }
    return claim_jobs_of_any(request, parts, count, arguments.oldest_first, now, sink);
}

}  // namespace jobq
