// See given_settings.h.
#include "compat/pg.h"

#include "admin/given_settings.h"
#include "compat/args.h"
#include "compat/own_locks.h"
#include "compat/spi.h"
#include "core/stable_hash.h"
#include "limits/limiter.h"
#include "queues/directory.h"
#include "queues/queue_settings.h"
#include "queues/scope.h"
#include "row/limit_names.h"

#include <algorithm>

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

using core::SettingLevel;
using core::SettingNumber;

// A statement that writes a row of settings. Its first parameters are the columns of the primary key. After them, each
// setting of the level has two parameters: whether the setting is given, and its new value. The SQL text is built when
// the statement is first used.
struct SettingsWriter {
    const char *table;
    const char *key;  // the columns of the primary key
    int key_columns;
    SettingLevel level;
    bool replaces;  // changes an existing row; otherwise, keeps it unchanged
    Statement statement;
};
SettingsWriter queue_creator = {"queue_settings",    "queue", 1,
                                SettingLevel::Queue, false,   {nullptr, {}, Planning::Free}};
SettingsWriter queue_changer = {"queue_settings", "queue", 1, SettingLevel::Queue, true, {nullptr, {}, Planning::Free}};
SettingsWriter kind_changer = {"kind_settings",    "queue, kind", 2,
                               SettingLevel::Kind, true,          {nullptr, {}, Planning::Free}};
static_assert(2 + 2 * core::kQueueSettings < kMaxParameters, "a statement has room for the parameters of all settings");

void make_statement(SettingsWriter *writer) {
    if (writer->statement.sql != nullptr) return;
    StringInfoData values, update;
    initStringInfo(&values);
    initStringInfo(&update);
    int parameter = 0;
    const auto add = [&](Oid type) {
        writer->statement.types[parameter] = type;
        return ++parameter;
    };
    for (int i = 0; i < writer->key_columns; i++) appendStringInfo(&values, "%s$%d", i == 0 ? "" : ", ", add(TEXTOID));
    for (const core::QueueSetting &setting : core::kQueueSettingTable) {
        if (!core::is_at(setting.level, writer->level)) continue;
        const int given = add(BOOLOID), value = add(setting_type(setting));
        appendStringInfo(&values, ", $%d", value);
        appendStringInfo(&update, "%s%s = CASE WHEN $%d THEN excluded.%s ELSE s.%s END", update.len == 0 ? "" : ", ",
                         setting.name, given, setting.name, setting.name);
    }
    const char *conflict = writer->replaces ? psprintf("UPDATE SET %s", update.data) : "NOTHING";
    writer->statement.sql = MemoryContextStrdup(
        TopMemoryContext, psprintf("INSERT INTO jobq.%s AS s (%s%s) VALUES (%s) ON CONFLICT (%s) DO %s", writer->table,
                                   writer->key, setting_columns(writer->level), values.data, writer->key, conflict));
}

// Writes the row. `params` contains the primary key. A value that removes a setting of a queue becomes NULL. For a
// kind, it is stored, because it replaces the value of the queue.
void write(SettingsWriter *writer, Params params, const GivenSettings &settings) {
    make_statement(writer);
    for (int i = 0; i < core::kQueueSettings; i++) {
        const core::QueueSetting &setting = core::kQueueSettingTable[i];
        if (!core::is_at(setting.level, writer->level)) continue;
        const bool given = settings.given[i];
        params.add(BoolGetDatum(given));
        params.add_if(given && (writer->level == SettingLevel::Kind || !takes_away(setting, settings.values[i])),
                      settings.values[i]);
    }
    run(writer->statement, params);
}

// Looks for a dead letter queue that is set to keep no failed jobs, itself or for one of its kinds: either a dead
// letter queue of the given queue, or the given queue if other queues use it as their dead letter queue.
Statement find_unkept_letters = {
    R"(SELECT l.queue
       FROM (SELECT s.queue AS origin, s.dead_letter_queue AS queue FROM jobq.queue_settings s
             UNION ALL SELECT k.queue, k.dead_letter_queue FROM jobq.kind_settings k) l
       WHERE (l.origin = $1 OR l.queue = $1)
         AND (EXISTS (SELECT FROM jobq.queue_settings s WHERE s.queue = l.queue AND s.keep_failed = interval '0')
              OR EXISTS (SELECT FROM jobq.kind_settings k WHERE k.queue = l.queue AND k.keep_failed = interval '0'))
       LIMIT 1)",
    {TEXTOID},
    Planning::Free};

// Reads settings under the latest snapshot, even in REPEATABLE READ and SERIALIZABLE.
Rows read_latest(Statement &statement, text *queue) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    const Rows rows = read(statement, Params().add(PointerGetDatum(queue)), snapshot);
    UnregisterSnapshot(snapshot);
    return rows;
}

// Checks the name of a dead letter queue. An empty name means that there is no dead letter queue.
void check_dead_letter_queue(FunctionCallInfo fcinfo, std::string_view queue, std::string_view dead_letter_queue) {
    if (dead_letter_queue.empty()) return;
    check_scope(scope_of(fcinfo), dead_letter_queue);
    if (dead_letter_queue == queue)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("argument \"dead_letter_queue\" must not be the queue itself"),
                 errhint("Specify another queue. Without a dead letter queue, failed jobs stay in their own queue.")));
    require_known_queue(dead_letter_queue);
}

bool concerns_dead_letters(const GivenSettings &settings) {
    return settings.has(SettingNumber::keep_failed) || settings.has(SettingNumber::dead_letter_queue);
}

// Raises an error if a role that was granted only some queues enables round_robin. Enabling this setting locks
// jobq.jobs, and therefore the jobs of all queues, until the transaction ends (claim/round_robin_setting.cpp).
void check_round_robin(FunctionCallInfo fcinfo, bool round_robin) {
    if (!round_robin || scope_of(fcinfo) == nullptr) return;
    ereport(
        ERROR,
        (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to enable \"round_robin\""),
         errdetail("Enabling \"round_robin\" locks the jobs of all queues, but the role was granted only some queues."),
         errhint("Ask an operator with privileges on all queues to enable \"round_robin\".")));
}

// A list of delays replaces backoff_base and backoff_max. So if a call sets one of these, it also removes the list.
void settle_backoff(GivenSettings *settings) {
    if (!settings->has(SettingNumber::backoff_base) && !settings->has(SettingNumber::backoff_max)) return;
    const core::QueueSetting &list = core::setting_of(SettingNumber::backoff);
    if (settings->has(SettingNumber::backoff) && !takes_away(list, settings->get(SettingNumber::backoff)))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("argument \"backoff\" must not be used together with \"backoff_base\" or \"backoff_max\""),
                 errhint("Specify either the list of delays or the first and the maximum delay.")));
    settings->set(SettingNumber::backoff, PointerGetDatum(construct_empty_array(INTERVALOID)));
}

}  // namespace

GivenSettings settings_arguments(FunctionCallInfo fcinfo, int first, SettingLevel level, const text *queue) {
    GivenSettings found = {};
    int argument = first;
    for (int i = 0; i < core::kQueueSettings; i++) {
        const core::QueueSetting &setting = core::kQueueSettingTable[i];
        if (!core::is_at(setting.level, level)) continue;
        const int n = argument++;
        if (!given(fcinfo, n)) continue;
        found.set(static_cast<SettingNumber>(i), PG_GETARG_DATUM(n));
        check_setting(setting, found.values[i]);
    }
    if (found.has(SettingNumber::dead_letter_queue))
        check_dead_letter_queue(fcinfo, view(queue), view(DatumGetTextPP(found.get(SettingNumber::dead_letter_queue))));
    if (found.has(SettingNumber::round_robin))
        check_round_robin(fcinfo, DatumGetBool(found.get(SettingNumber::round_robin)));
    settle_backoff(&found);
    return found;
}

void lock_dead_letters(const text *queue, const GivenSettings &settings) {
    int64 numbers[2] = {};
    int count = 0;
    if (settings.has(SettingNumber::keep_failed)) numbers[count++] = core::stable_hash(view(queue));
    const std::string_view letters = settings.has(SettingNumber::dead_letter_queue)
                                         ? view(DatumGetTextPP(settings.get(SettingNumber::dead_letter_queue)))
                                         : std::string_view();
    if (!letters.empty()) numbers[count++] = core::stable_hash(letters);
    std::sort(numbers, numbers + count);
    for (int i = 0; i < count; i++) {
        const LOCKTAG tag = own_lock(OwnLock::DeadLetters, numbers[i]);
        LockAcquire(&tag, ExclusiveLock, false, false);
    }
}

void refuse_unkept_dead_letters(text *queue, const GivenSettings &written) {
    if (!concerns_dead_letters(written)) return;
    const Rows unkept = read_latest(find_unkept_letters, queue);
    if (unkept.size() == 0) return;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("queue \"%s\" must keep failed jobs because it is a dead letter queue",
                    TextDatumGetCString(unkept[0].get(1))),
             errhint("Set \"keep_failed\" of the queue to more than 0, or specify another \"dead_letter_queue\".")));
}

void warn_of_unknown_limits(const text *queue, const GivenSettings &settings) {
    if (!settings.has(SettingNumber::limits)) return;
    const Queue &current = *find_queue(view(queue));
    const LimitNames names = names_in_limits(DatumGetArrayTypeP(settings.get(SettingNumber::limits)));
    for (int i = 0; i < names.count; i++) {
        if (named_limit(current, names.items[i]) != nullptr) continue;
        ereport(NOTICE, (errmsg("queue \"%s\" does not share a limit named \"%.*s\"", text_to_cstring(queue),
                                static_cast<int>(names.items[i].size()), names.items[i].data()),
                         errhint("The name limits no jobs until jobq_set_named_limit() adds the queue to the limit.")));
    }
}

bool create_queue(text *queue, const GivenSettings &settings) {
    write(&queue_creator, Params().add(PointerGetDatum(queue)), settings);
    return affected() == 1;
}

void alter_queue(text *queue, const GivenSettings &settings) {
    write(&queue_changer, Params().add(PointerGetDatum(queue)), settings);
}

void alter_kind(text *queue, text *kind, const GivenSettings &settings) {
    write(&kind_changer, Params().add(PointerGetDatum(queue)).add(PointerGetDatum(kind)), settings);
}

}  // namespace jobq
