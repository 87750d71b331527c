// See filter_keys.h.
#include "compat/pg.h"

#include "admin/filter_keys.h"
#include "compat/args.h"
#include "compat/json_keys.h"
#include "job/job_arguments.h"

namespace jobq {

namespace {

struct FilterKey {
    const char *name;
    // Function that adds the key's value to the filter. The pointer is nullptr if the condition is not a key but a
    // separate argument of the SQL function.
    void (*read)(const char *name, const JsonbValue &value, JobFilter *filter);
};

// The keys of the argument `filter`. JSON null is rejected instead of meaning "any", because a variable that is NULL by
// mistake must not select all jobs.
constexpr FilterKey kFilterKeys[] = {
    {"concurrency_key",
     [](const char *name, const JsonbValue &value, JobFilter *filter) {
         filter->concurrency_key = text_of_key(name, value);
         check_concurrency_key(view(filter->concurrency_key), name);
     }},
    {"group_key",
     [](const char *name, const JsonbValue &value, JobFilter *filter) {
         filter->group_key = text_of_key(name, value);
         check_group_key(view(filter->group_key), name);
     }},
    {"version",
     [](const char *name, const JsonbValue &value, JobFilter *filter) {
         filter->version = int_of_key(name, value);
         filter->has_version = true;
     }},
    {"batch_id",
     [](const char *name, const JsonbValue &value, JobFilter *filter) {
         filter->batch_id = DatumGetInt64(number_of_key(name, value, int8in, "a number"));
     }},
    {"queue", nullptr},
    {"kind", nullptr},
    {"statuses", nullptr},
    {"error_like", nullptr},
    {"older_than", nullptr},
    {"metadata", nullptr},
    {"max_jobs", nullptr},
};

const FilterKey &find_key(std::string_view name) {
    for (const FilterKey &key : kFilterKeys) {
        if (name != key.name) continue;
        if (key.read == nullptr) refuse_typed_key("filter", key.name, key.name);
        return key;
    }
    UnknownKey unknown(name);
    for (const FilterKey &key : kFilterKeys)
        if (key.read != nullptr) unknown.add_known(key.name);
    unknown.refuse("filter");
}

}  // namespace

void read_filter_keys(const Jsonb *keys, JobFilter *filter) {
    require_object(keys, "filter", "Use an object such as '{\"concurrency_key\": \"tenant 7\"}'.");
    for_each_key(const_cast<JsonbContainer *>(&keys->root), [&](const JsonKey &given) {
        const FilterKey &key = find_key(given.name);
        with_key_context(key.name, [&] { key.read(key.name, given.value, filter); });
    });
}

}  // namespace jobq
