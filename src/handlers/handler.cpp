// See handler.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "handlers/executor_policy.h"
#include "handlers/handler.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

Statement read_all = {
    R"(SELECT h.queue, h.kind, h.handler, h.run_as, h.max_executors, h.versions, h.capabilities, h.settings
       FROM jobq.handler_settings h WHERE $1 IS NULL OR h.run_as = $1 ORDER BY h.queue, h.kind)",
    {TEXTOID},
    Planning::Free};
Statement lock_of_queue = {
    "SELECT 1 FROM jobq.handler_settings h WHERE h.queue = $1 ORDER BY h.kind FOR UPDATE", {TEXTOID}, Planning::Free};
Statement remove_of_queue = {"DELETE FROM jobq.handler_settings h WHERE h.queue = $1", {TEXTOID}, Planning::Free};

enum Column { kQueue = 1, kKind, kFunction, kRunAs, kMaxExecutors, kVersions, kCapabilities, kSettings };

// Settings that a handler must not set, because the executor controls them.
constexpr const char *kNotForHandlers[] = {"role",
                                           "session_authorization",
                                           "transaction_isolation",
                                           "transaction_read_only",
                                           "transaction_deferrable",
                                           "default_transaction_isolation",
                                           "default_transaction_read_only",
                                           "default_transaction_deferrable"};

// The length of a capability is not limited here, because rows that were written with plain SQL can contain long
// capabilities. Long capabilities do no harm, because no job requires them.
constexpr size_t kAnyLength = SIZE_MAX;

Handler handler_of(const Row &row, MemoryContext context) {
    MemoryContext spi = MemoryContextSwitchTo(context);
    Handler handler = {};
    handler.queue = keep(context, row.text_at(kQueue));
    auto *kind = static_cast<std::string_view *>(palloc(sizeof(std::string_view)));
    *kind = handler.kind = keep(context, row.text_at(kKind));
    handler.function = TextDatumGetCString(row.get(kFunction));
    handler.run_as = TextDatumGetCString(row.get(kRunAs));
    handler.max_executors = row.int32_at(kMaxExecutors);
    handler.filter.kinds = kind;
    handler.filter.kind_count = 1;
    if (!row.is_null(kVersions)) {
        const Elements versions = elements_of(DatumGetArrayTypePCopy(row.get(kVersions)), INT4OID, "versions",
                                              core::kMaxBatch, NullElements::Refused);
        auto *numbers = allocate_array<int32>(static_cast<uint64>(versions.count));
        for (int i = 0; i < versions.count; i++) numbers[i] = DatumGetInt32(versions.values[i]);
        handler.filter.versions = numbers;
        handler.filter.version_count = versions.count;
    }
    if (!row.is_null(kCapabilities)) {
        const Names capabilities =
            names_of(DatumGetArrayTypePCopy(row.get(kCapabilities)), "capabilities", kAnyLength, core::kMaxBatch);
        handler.filter.capabilities = capabilities.items;
        handler.filter.capability_count = core::canonical_set(capabilities.items, capabilities.count);
    }
    if (!row.is_null(kSettings)) {
        const Elements settings = elements_of(DatumGetArrayTypePCopy(row.get(kSettings)), TEXTOID, "settings",
                                              core::kMaxBatch, NullElements::Refused);
        read_settings_of(&handler, settings);
    }
    handler.hash = core::handler_hash(handler.queue, handler.kind);
    MemoryContextSwitchTo(spi);
    return handler;
}

}  // namespace

Handlers read_handlers(const char *run_as) {
    MemoryContext context = CurrentMemoryContext;
    return with_owner_spi([&] {
        Params params;
        params.add_if(run_as != nullptr, run_as == nullptr ? Datum(0) : CStringGetTextDatum(run_as));
        const Rows rows = run(read_all, params);
        auto *items = static_cast<Handler *>(MemoryContextAlloc(context, sizeof(Handler) * Max(rows.size(), 1)));
        for (uint64 i = 0; i < rows.size(); i++) items[i] = handler_of(rows[i], context);
        return Handlers{items, static_cast<int>(rows.size())};
    });
}

bool lock_handlers_of(const text *queue) { return run(lock_of_queue, Params().add(PointerGetDatum(queue))).size() > 0; }

int64 remove_handlers_of(const text *queue) {
    if (!lock_handlers_of(queue)) return 0;
    run(remove_of_queue, Params().add(PointerGetDatum(queue)));
    return affected();
}

void read_settings_of(Handler *handler, const Elements &texts) {
    handler->settings = allocate_array<HandlerSetting>(static_cast<uint64>(texts.count));
    handler->setting_count = texts.count;
    for (int i = 0; i < texts.count; i++) {
        char *name = TextDatumGetCString(texts.values[i]);
        char *equals = strchr(name, '=');
        if (equals == nullptr || equals == name) {
            handler->bad_setting = psprintf("invalid handler setting \"%s\"", name);
            return;
        }
        *equals = '\0';
        const auto is = [&](const char *other) { return pg_strcasecmp(name, other) == 0; };
        if (std::any_of(std::begin(kNotForHandlers), std::end(kNotForHandlers), is))
            handler->bad_setting = psprintf("a handler cannot set \"%s\"", name);
        handler->settings[i] = {name, equals + 1};
    }
}

}  // namespace jobq
