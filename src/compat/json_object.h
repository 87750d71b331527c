// Builds a jsonb object member by member. Texts and jsonb values are not copied, so they must stay valid until made()
// returns.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/numeric.h"
}

#include <string_view>

namespace jobq {

class JsonObject {
 public:
    JsonObject() { push(WJB_BEGIN_OBJECT, nullptr); }

    void number(std::string_view key, int64 value) {
        JsonbValue item;
        item.type = jbvNumeric;
        item.val.numeric = int64_to_numeric(value);
        add(key, &item);
    }
    void text_of(std::string_view key, std::string_view value) {
        JsonbValue item = string_of(value);
        add(key, &item);
    }
    // Adds a time in the time zone of the session or, if `west` is not nullptr, in the time zone that is `*west`
    // seconds west of UTC.
    void moment(std::string_view key, TimestampTz value, const int *west = nullptr) {
        auto *written = static_cast<char *>(palloc(MAXDATELEN + 1));
        JsonEncodeDateTime(written, TimestampTzGetDatum(value), TIMESTAMPTZOID, west);
        text_of(key, written);
    }
    // Adds a jsonb value, or the JSON value null if `value` is nullptr.
    void json(std::string_view key, const Jsonb *value) {
        JsonbValue item;
        item.type = jbvNull;
        if (value != nullptr && JB_ROOT_IS_SCALAR(value)) {
            JsonbExtractScalar(const_cast<JsonbContainer *>(&value->root), &item);
        } else if (value != nullptr) {
            item.type = jbvBinary;
            item.val.binary.data = const_cast<JsonbContainer *>(&value->root);
            item.val.binary.len = static_cast<int>(VARSIZE(value) - VARHDRSZ);
        }
        add(key, &item);
    }

    Datum made() {
        push(WJB_END_OBJECT, nullptr);
        return PointerGetDatum(JsonbValueToJsonb(result_));
    }

 private:
    static JsonbValue string_of(std::string_view value) {
        JsonbValue item;
        item.type = jbvString;
        item.val.string.val = const_cast<char *>(value.data());
        item.val.string.len = static_cast<int>(value.size());
        return item;
    }
    void add(std::string_view key, JsonbValue *value) {
        JsonbValue name = string_of(key);
        push(WJB_KEY, &name);
        push(WJB_VALUE, value);
    }
    void push(JsonbIteratorToken token, JsonbValue *value) { result_ = push_jsonb(&state_, token, value); }

    JsonbState state_ = {};
    JsonbValue *result_ = nullptr;
};

}  // namespace jobq
