// See kinds.h.
#include "compat/pg.h"

#include "admin/kinds.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "core/queue_settings.h"
#include "queues/queue_settings.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

Statement remove_row = {
    "DELETE FROM jobq.kind_settings s WHERE s.queue = $1 AND s.kind = $2", {TEXTOID, TEXTOID}, Planning::Free};

// The SQL texts of these statements are built when they are first used.
Statement remove_settings = {nullptr, {TEXTOID, TEXTOID, TEXTARRAYOID}, Planning::Free};
Statement remove_empty_row = {nullptr, {TEXTOID, TEXTOID}, Planning::Free};

void make_statements() {
    if (remove_empty_row.sql != nullptr) return;
    StringInfoData change, condition;
    initStringInfo(&change);
    initStringInfo(&condition);
    for (const core::QueueSetting &setting : core::kQueueSettingTable) {
        if (!core::is_at(setting.level, core::SettingLevel::Kind)) continue;
        const bool first = change.len == 0;
        appendStringInfo(&change, "%s%s = CASE WHEN '%s' <> ALL ($3) THEN s.%s END", first ? "" : ", ", setting.name,
                         setting.name, setting.name);
        appendStringInfo(&condition, "%ss.%s IS NOT NULL AND '%s' = ANY ($3)", first ? "" : " OR ", setting.name,
                         setting.name);
    }
    remove_settings.sql = MemoryContextStrdup(
        TopMemoryContext, psprintf("UPDATE jobq.kind_settings s SET %s WHERE s.queue = $1 AND s.kind = $2 AND (%s)",
                                   change.data, condition.data));
    remove_empty_row.sql =
        MemoryContextStrdup(TopMemoryContext, psprintf("%s AND num_nonnulls(%s) = 0", remove_row.sql,
                                                       setting_columns(core::SettingLevel::Kind, "s.") + strlen(", ")));
}

// Returns the names of the settings. If one of them is a backoff setting, adds the names of the others.
Datum with_all_of_backoff(Datum settings) {
    constexpr const char *kBackoff[] = {"backoff", "backoff_base", "backoff_max"};
    const Elements names =
        elements_of(DatumGetArrayTypeP(settings), TEXTOID, "settings", core::kMaxNames, NullElements::Refused);
    ArrayColumn all(names.count + static_cast<int>(lengthof(kBackoff)));
    bool any = false;
    for (int i = 0; i < names.count; i++) {
        all.add(names.values[i]);
        for (const char *name : kBackoff) any |= view(DatumGetTextPP(names.values[i])) == name;
    }
    for (const char *name : kBackoff)
        if (any) all.add(CStringGetTextDatum(name));
    return all.array(TEXTOID);
}

}  // namespace

bool drop_kind(text *queue, text *kind) {
    run(remove_row, Params().add(PointerGetDatum(queue)).add(PointerGetDatum(kind)));
    return affected() == 1;
}

bool drop_settings_of_kind(text *queue, text *kind, Datum settings) {
    make_statements();
    const Params key = Params().add(PointerGetDatum(queue)).add(PointerGetDatum(kind));
    run(remove_settings, Params(key).add(with_all_of_backoff(settings)));
    const bool removed = affected() == 1;
    run(remove_empty_row, key);
    return removed;
}

}  // namespace jobq
