// See json_keys.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/json_keys.h"

extern "C" {
#include "utils/varlena.h"
}

namespace jobq {

namespace {

// Maximum length of an unknown key that is compared with the known keys to find a similar key. All known keys are
// shorter.
constexpr size_t kMaxComparedBytes = 63;

char *string_of(const JsonbValue &value) { return pnstrdup(value.val.string.val, value.val.string.len); }

}  // namespace

void add_key_context(void *key) { errcontext("key \"%s\"", static_cast<const char *>(key)); }

void require_object(const Jsonb *value, const char *argument, const char *hint) {
    if (JB_ROOT_IS_OBJECT(value)) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be a JSON object", argument),
                    errhint("%s", hint)));
}

// Sets the initial value of distance_ so that a known key counts as similar only if its edit distance from the given
// key is at most half of the length of the given key.
UnknownKey::UnknownKey(std::string_view given) : given_(given), distance_(static_cast<int>(given.size() / 2) + 1) {
    initStringInfo(&known_);
}

void UnknownKey::add_known(const char *name) {
    appendStringInfo(&known_, "%s%s", known_.len > 0 ? ", " : "", name);
    if (given_.size() > kMaxComparedBytes) return;
    const int distance = varstr_levenshtein_less_equal(given_.data(), static_cast<int>(given_.size()), name,
                                                       static_cast<int>(strlen(name)), 1, 1, 1, distance_, true);
    if (distance >= distance_) return;
    distance_ = distance;
    nearest_ = name;
}

void UnknownKey::refuse(const char *argument) const {
    refuse_key(argument, given_,
               nearest_ == nullptr ? psprintf("Valid keys are %s.", known_.data)
                                   : psprintf("Perhaps you meant \"%s\".", nearest_));
}

void refuse_typed_key(const char *argument, const char *key, const char *typed_argument) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"%s\" must not have the key \"%s\"", argument, key),
                    errhint("Use the argument \"%s\" of the function.", typed_argument)));
    pg_unreachable();
}

void wrong_json_type(const char *key, const char *wanted) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be %s", key, wanted),
             errhint("Write numbers as JSON numbers, timestamps and intervals as strings, and lists as JSON arrays.")));
    pg_unreachable();
}

text *text_of_key(const char *key, const JsonbValue &value, const char *wanted) {
    if (value.type != jbvString) wrong_json_type(key, wanted);
    return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

Datum number_of_key(const char *key, const JsonbValue &value, PGFunction input, const char *wanted) {
    if (value.type == jbvString) return DirectFunctionCall1(input, CStringGetDatum(string_of(value)));
    if (value.type != jbvNumeric) wrong_json_type(key, wanted);
    return DirectFunctionCall1(input, CStringGetDatum(digits_of(value)));
}

int32 int_of_key(const char *key, const JsonbValue &value) {
    return DatumGetInt32(number_of_key(key, value, int4in, "a number"));
}

char *digits_of(const JsonbValue &number) {
    const Datum trimmed = DirectFunctionCall1(numeric_trim_scale, NumericGetDatum(number.val.numeric));
    return DatumGetCString(DirectFunctionCall1(numeric_out, trimmed));
}

}  // namespace jobq
