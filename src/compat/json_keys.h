// Reads jsonb objects that are passed as arguments, key by key.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "lib/stringinfo.h"
}

#include <string_view>

namespace jobq {

struct JsonKey {
    std::string_view name;
    JsonbValue value;
};

// Calls read(key) for each key of the object.
template <typename Read>
void for_each_key(JsonbContainer *object, Read read) {
    JsonbIterator *iterator = JsonbIteratorInit(object);
    JsonbValue name, value;
    JsonbIteratorNext(&iterator, &name, true);  // the object itself
    while (JsonbIteratorNext(&iterator, &name, true) == WJB_KEY) {
        JsonbIteratorNext(&iterator, &value, true);
        read(JsonKey{{name.val.string.val, static_cast<size_t>(name.val.string.len)}, value});
    }
}

// Adds the name of a JSON key to the context of an error. Used as an ErrorContextCallback whose argument is the name.
void add_key_context(void *key);
// Calls read(). If it raises an error, the error context names the key.
template <typename Read>
void with_key_context(const char *key, Read read) {
    ErrorContextCallback context = {error_context_stack, add_key_context, const_cast<char *>(key)};
    error_context_stack = &context;
    read();
    error_context_stack = context.previous;
}

// Raises 22023 unless the argument is an object. `hint` becomes the hint of the error message.
void require_object(const Jsonb *value, const char *argument, const char *hint);

// Raises an error for an unknown key, with a hint about the known keys. The caller must first add all known keys.
class UnknownKey {
 public:
    explicit UnknownKey(std::string_view given);
    void add_known(const char *name);
    // Raises 22023. The hint names the most similar known key, or all known keys if none is similar.
    [[noreturn]] void refuse(const char *argument) const;

 private:
    std::string_view given_;
    StringInfoData known_;
    const char *nearest_ = nullptr;
    int distance_;  // edit distance of `nearest_`; if `nearest_` is nullptr, the smallest distance that is too large
};
// Raises 22023 because the function has a separate argument (`typed_argument`) for the value of this key.
[[noreturn]] void refuse_typed_key(const char *argument, const char *key, const char *typed_argument);

// The following functions convert the value of a key. They raise 22023 if the value has the wrong JSON type. If a
// string is not valid input for the SQL type, the type's input function raises its own error.
[[noreturn]] void wrong_json_type(const char *key, const char *wanted);
text *text_of_key(const char *key, const JsonbValue &value, const char *wanted = "a string");
// Converts a number. The number can also be written as a string, because drivers without 64-bit integers return ids as
// strings.
Datum number_of_key(const char *key, const JsonbValue &value, PGFunction input, const char *wanted);
int32 int_of_key(const char *key, const JsonbValue &value);
// Returns a JSON number as text that the input function of an SQL type accepts. A whole number in any notation (1.0,
// 1e2) becomes plain digits.
char *digits_of(const JsonbValue &number);

}  // namespace jobq
