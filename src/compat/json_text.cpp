// See json_text.h.
#include "compat/pg.h"

#include "compat/json_text.h"

#include <algorithm>

namespace jobq {

namespace {

bool needs_escape(char c) { return static_cast<unsigned char>(c) < ' ' || c == '"' || c == '\\'; }

constexpr uint64 repeated(unsigned char c) { return UINT64CONST(0x0101010101010101) * c; }

// Returns whether one of the eight bytes of the word is smaller than `n`, which must be at most 128. From Sean Eron
// Anderson's "Bit Twiddling Hacks".
constexpr bool has_less(uint64 word, unsigned char n) { return ((word - repeated(n)) & ~word & repeated(0x80)) != 0; }

bool needs_no_escape(uint64 word) {
    return !has_less(word, ' ') && !has_less(word ^ repeated('"'), 1) && !has_less(word ^ repeated('\\'), 1);
}

// Returns the first character from `next` on that needs an escape, or `end`.
const char *find_escape(const char *next, const char *end) {
    for (uint64 word; end - next >= static_cast<ptrdiff_t>(sizeof(word)); next += sizeof(word)) {
        memcpy(&word, next, sizeof(word));
        if (!needs_no_escape(word)) break;
    }
    return std::find_if(next, end, needs_escape);
}

void add_escape(StringInfo out, char c) {
    constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    const size_t found = kCharacters.find(c);
    if (found == std::string_view::npos) {
        appendStringInfo(out, "\\u%04x", c);
        return;
    }
    appendStringInfoChar(out, '\\');
    appendStringInfoChar(out, kLetters[found]);
}

void add_scalar(StringInfo out, const JsonbValue &value) {
    switch (value.type) {
        case jbvString:
            add_json_string(out, {value.val.string.val, static_cast<size_t>(value.val.string.len)});
            break;
        case jbvNumeric: {
            char *number = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
            appendStringInfoString(out, number);
            pfree(number);
            break;
        }
        case jbvBool:
            appendStringInfoString(out, value.val.boolean ? "true" : "false");
            break;
        case jbvNull:
            appendBinaryStringInfo(out, "null", 4);
            break;
        default:
            elog(ERROR, "unexpected type of a JSON value: %d", static_cast<int>(value.type));
    }
}

}  // namespace

void add_json_string(StringInfo out, std::string_view text) {
    const char *next = text.data(), *end = next + text.size();
    appendStringInfoCharMacro(out, '"');
    while (next < end) {
        const char *stop = find_escape(next, end);
        appendBinaryStringInfo(out, next, static_cast<int>(stop - next));
        if (stop < end) add_escape(out, *stop++);
        next = stop;
    }
    appendStringInfoCharMacro(out, '"');
}

void add_json(StringInfo out, Jsonb *value) {
    enlargeStringInfo(out, VARSIZE(value));
    JsonbIterator *iterator = JsonbIteratorInit(&value->root);
    JsonbValue part;
    bool is_first = true, is_scalar = false;
    const auto separate = [&] {
        if (!is_first) appendStringInfoCharMacro(out, ',');
        is_first = false;
    };
    for (;;) {
        switch (JsonbIteratorNext(&iterator, &part, false)) {
            case WJB_BEGIN_ARRAY:
                separate();
                // The server stores a value that is neither an object nor an array as an array with one element.
                is_scalar = part.val.array.rawScalar;
                if (!is_scalar) appendStringInfoCharMacro(out, '[');
                is_first = true;
                break;
            case WJB_BEGIN_OBJECT:
                separate();
                appendStringInfoCharMacro(out, '{');
                is_first = true;
                break;
            case WJB_KEY:
                separate();
                add_scalar(out, part);
                appendStringInfoCharMacro(out, ':');
                is_first = true;
                break;
            case WJB_ELEM:
            case WJB_VALUE:
                separate();
                add_scalar(out, part);
                break;
            case WJB_END_ARRAY:
                if (!is_scalar) appendStringInfoCharMacro(out, ']');
                is_first = false;
                break;
            case WJB_END_OBJECT:
                appendStringInfoCharMacro(out, '}');
                is_first = false;
                break;
            case WJB_DONE:
                return;
        }
    }
}

}  // namespace jobq
