// SQL functions with which administrators set and remove the settings of kinds.
#include "compat/pg.h"

#include "admin/given_settings.h"
#include "admin/kinds.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "core/job.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

text *kind_argument(FunctionCallInfo fcinfo) {
    text *kind = require_text(fcinfo, 1, "kind");
    check_name(view(kind), "kind", core::kMaxKindBytes, true);
    return kind;
}

// Returns the argument "settings", in which each element must be the name of a setting of kinds.
Datum settings_argument(FunctionCallInfo fcinfo) {
    ArrayType *array = PG_GETARG_ARRAYTYPE_P(2);
    const Names names = names_of(array, "settings", NAMEDATALEN, core::kMaxNames);
    std::string_view known[core::kQueueSettings];
    int count = 0;
    for (const core::QueueSetting &setting : core::kQueueSettingTable)
        if (core::is_at(setting.level, core::SettingLevel::Kind)) known[count++] = setting.name;
    for (const std::string_view *name = names.items; name < names.items + names.count; name++)
        if (std::find(known, known + count, *name) == known + count) refuse_choice("settings", *name, known, count);
    return PointerGetDatum(array);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_alter_kind);
PGDLLEXPORT Datum jobq_alter_kind(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    text *kind = kind_argument(fcinfo);
    const GivenSettings found = settings_arguments(fcinfo, 2, core::SettingLevel::Kind, queue);
    const QueueScope *scope = scope_of(fcinfo);
    with_owner_spi([&] {
        require_known_queue(view(queue));
        warn_of_mistyped_queue(view(queue), scope);
        lock_dead_letters(queue, found);
        alter_kind(queue, kind, found);
        refuse_unkept_dead_letters(queue, found);
        warn_of_unknown_limits(queue, found);
    });
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_drop_kind);
PGDLLEXPORT Datum jobq_drop_kind(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    text *kind = kind_argument(fcinfo);
    const bool some = given(fcinfo, 2);
    const Datum settings = some ? settings_argument(fcinfo) : Datum(0);
    const bool dropped =
        with_owner_spi([&] { return some ? drop_settings_of_kind(queue, kind, settings) : drop_kind(queue, kind); });
    if (!dropped)
        ereport(NOTICE, (errmsg("queue \"%s\" has no such settings for kind \"%s\"", text_to_cstring(queue),
                                text_to_cstring(kind)),
                         errhint("Query the view jobq.kinds to list the settings of kinds.")));
    PG_RETURN_BOOL(dropped);
}

}  // extern "C"

}  // namespace jobq
