// See worker_info.h.
#include "compat/pg.h"

#include "compat/json_keys.h"
#include "compat/json_object.h"
#include "core/queue_pattern.h"
#include "metrics/connected_workers.h"
#include "metrics/worker_info.h"
#include "row/payload.h"

namespace jobq {

namespace {

constexpr core::Micros kMaxWorkerExpiry = core::kDay;

// The name of a key in error messages.
#define IN_INFO(key) "worker_info." key

std::string_view string_at(const char *key, const JsonbValue &value) {
    if (value.type != jbvString) wrong_json_type(key, "a string");
    return {value.val.string.val, static_cast<size_t>(value.val.string.len)};
}

Names names_at(const char *key, const JsonbValue &value) {
    if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
        wrong_json_type(key, "an array of strings");
    JsonbContainer *array = value.val.binary.data;
    const int size = static_cast<int>(JsonContainerSize(array));
    Names names = {static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(size, 1))), 0};
    JsonbIterator *iterator = JsonbIteratorInit(array);
    JsonbValue element;
    JsonbIteratorNext(&iterator, &element, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        if (element.type != jbvString) wrong_json_type(key, "an array of strings");
        names.items[names.count++] = string_at(key, element);
    }
    return names;
}

// Calls the input function of a type. An error names the key.
Datum converted(const char *key, const JsonbValue &value, PGFunction input) {
    char *text = pnstrdup(value.val.string.val, value.val.string.len);
    Datum result = 0;
    with_key_context(key, [&] {
        result = DirectFunctionCall3(input, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
    });
    return result;
}

TimestampTz time_at(const JsonbValue &value) {
    constexpr const char *kName = IN_INFO("started_at");
    if (value.type != jbvString) wrong_json_type(kName, "a string with a timestamp");
    return check_moment(DatumGetTimestampTz(converted(kName, value, timestamptz_in)), kName);
}

core::Micros span_at(const JsonbValue &value) {
    constexpr const char *kName = IN_INFO("expires_in");
    if (value.type != jbvString) wrong_json_type(kName, "a string with an interval");
    const core::Micros span = check_span(DatumGetIntervalP(converted(kName, value, interval_in)), kName, Zero::Allowed);
    if (span > kMaxWorkerExpiry)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be at most 1 day", kName),
                 errhint("Pass two or three times the interval at which the worker passes its worker_info.")));
    return span;
}

int slots_at(const JsonbValue &value) {
    constexpr const char *kName = IN_INFO("slots");
    int slots = 0;
    with_key_context(kName, [&] { slots = check_positive(int_of_key(kName, value), kName); });
    return slots;
}

void check_names(const WorkerInfo &info) {
    const auto missing = [](const char *key) {
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"worker_info\" must have the key \"%s\"", key),
                        errhint("Pass an object such as {\"worker_id\": \"host-1\", \"queues\": [\"emails\"]}.")));
    };
    if (info.worker_id.data() == nullptr) missing("worker_id");
    if (info.queues.items == nullptr) missing("queues");
    if (info.queues.count + info.patterns.count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"%s\" must contain at least one queue", IN_INFO("queues")),
                        errhint("List the queues from which the worker claims jobs, or their patterns in the key "
                                "\"patterns\".")));
    check_name(info.worker_id, IN_INFO("worker_id"), core::kMaxWorkerBytes, false);
    for (int i = 0; i < info.queues.count; i++) check_queue_name(info.queues.items[i], {IN_INFO("queues"), i + 1});
    for (int i = 0; i < info.patterns.count; i++)
        check_name(info.patterns.items[i], {IN_INFO("patterns"), i + 1}, core::kMaxPatternBytes, false);
    for (int i = 0; i < info.kinds.count; i++)
        check_name(info.kinds.items[i], {IN_INFO("kinds"), i + 1}, core::kMaxKindBytes, true);
}

// Reads a key whose conversion does not depend on settings. Returns false if the key is not such a key.
bool read_plain_key(const JsonKey &key, WorkerInfo *info) {
    if (key.name == "worker_id")
        info->worker_id = string_at(IN_INFO("worker_id"), key.value);
    else if (key.name == "queues")
        info->queues = names_at(IN_INFO("queues"), key.value);
    else if (key.name == "kinds")
        info->kinds = names_at(IN_INFO("kinds"), key.value);
    else if (key.name == "slots")
        info->slots = slots_at(key.value);
    else if (key.name == "client")
        info->client = string_at(IN_INFO("client"), key.value);
    else
        return false;
    return true;
}

JsonbContainer *root_of(const Jsonb *info) { return const_cast<JsonbContainer *>(&info->root); }

}  // namespace

WorkerInfo check_worker_info(const Jsonb *info) {
    require_object(info, "worker_info",
                   "Pass an object such as {\"worker_id\": \"host-1\", \"queues\": [\"emails\"]}.");
    WorkerInfo read = {};
    read.started_at = DT_NOBEGIN;
    read.expires_in = kWorkerExpiry;
    for_each_key(root_of(info), [&](const JsonKey &key) {
        if (key.value.type == jbvNull || read_plain_key(key, &read)) return;
        if (key.name == "patterns") read.patterns = names_at(IN_INFO("patterns"), key.value);
        if (key.name == "started_at") read.started_at = time_at(key.value);
        if (key.name == "expires_in") read.expires_in = span_at(key.value);
    });
    check_names(read);
    return read;
}

WorkerInfo read_worker_info(const Jsonb *info) {
    WorkerInfo read = {};
    JsonObject others;
    bool any = false;
    for_each_key(root_of(info), [&](const JsonKey &key) {
        if (key.value.type == jbvNull || read_plain_key(key, &read)) return;
        if (key.name == "started_at" || key.name == "expires_in") return;
        if (key.name == "patterns") read.patterns = names_at(IN_INFO("patterns"), key.value);
        others.json(key.name, JsonbValueToJsonb(const_cast<JsonbValue *>(&key.value)));
        any = true;
    });
    if (any) read.others = DatumGetJsonbP(others.made());
    return read;
}

const Jsonb *given_worker_info(FunctionCallInfo fcinfo, int n, const text *worker_id) {
    check_json_size(PG_GETARG_DATUM(n), "worker_info", kMaxWorkerInfoKb, nullptr);
    const Jsonb *info = PG_GETARG_JSONB_P(n);
    const std::string_view name = known_worker_id(info);
    if (worker_id != nullptr && name != view(worker_id))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"worker_info\" has another \"worker_id\" than the call"),
                        errhint("Pass the worker_id with which the worker claims jobs.")));
    if (const QueueScope *scope = scope_of(fcinfo)) {
        const Names queues = read_worker_info(info).queues;
        for (int i = 0; i < queues.count; i++) check_scope(scope, queues.items[i]);
    }
    return info;
}

}  // namespace jobq
