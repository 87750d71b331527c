"""Nasty values by type: SQL expressions that a function must either reject by name or accept.

They are expressions rather than literals, so that a megabyte is short when it is printed. Values that their type rejects never reach
jobq; `accepted` finds and removes them, so the list may contain values that only newer servers accept.
"""

import psycopg

# jobq.max_payload of the attacked server, small so that a value above it is cheap.
MAX_PAYLOAD = "1MB"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def _strings(*texts):
    return tuple(quoted(text) for text in texts)


TEXTS = (
    "''", "' '", "'x'", "repeat('q', 63)", "repeat('q', 64)", "repeat('q', 255)", "repeat('q', 256)",
    "repeat('q', 1024)", "repeat('q', 1025)", "repeat('x', 1000000)", "repeat(U&'\\20AC', 21)", "repeat(U&'\\20AC', 22)",
    "repeat(U&'\\+01F980', 16)", "E'a\\tb\\nc\\x01'", "E'ends with \\\\'", "E'\\u202Eright to left'",
) + _strings(
    "Default", "DEFAULT", "größe", "*", "%", "_", "'; DROP TABLE jobq.jobs; --", 'double " quote', "$1", "{}", "NULL",
    "backend:1", "backend:", "cancel", "run", "ignore", "replace", "error", "reject", "drop_oldest", "fail", "producer",
    "no such role", "jobq", "infinity", "-1", "../../etc/passwd")

INTEGERS = ("0", "1", "-1", "2", "32767", "32768", "(-32768)", "(-32769)", "99999", "100000", "1000000", "1000001", "2147483647",
            "(-2147483648)")
BIGINTS = ("0", "1", "-1", "2147483648", "9007199254740991", "9007199254740992", "9223372036854775806",
           "9223372036854775807", "(-9223372036854775808)")
DOUBLES = _strings("0", "-0", "-1", "0.1", "1e-300", "1e308", "5e-324", "NaN", "Infinity", "-Infinity")
INTERVALS = _strings(
    "0", "1 us", "-1 us", "9 ms", "10 ms", "-1 s", "1 mon -30 days", "1 mon -31 days", "-1 mon 31 days", "365 days",
    "365 days 1 us", "36500 days", "36501 days", "300000 years", "-300000 years", "178000000 years", "-178000000 years",
    "2147483647 mons 2147483647 days 2562047788 hours", "-2147483648 mons -2147483648 days", "2562047788 hours",
    "infinity", "-infinity")
TIMESTAMPS = _strings(
    "infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "4714-11-24 00:00:00+00 BC", "epoch",
    "2000-01-01 00:00:00+00", "9999-12-31 00:00:00+00", "300000-01-01") + (
        "clock_timestamp()", "clock_timestamp() + interval '1 us'", "clock_timestamp() + interval '300 ms'",
        "clock_timestamp() - interval '100 years'")
JSON = _strings(
    "null", "true", "0", "-1", "1e1000", '""', '"x"', "[]", "{}", "[[]]", "[null]", "[{}]", '{"": null}',
    '{"a": {"b": [1, "2", null, {"c": []}]}}', '{"a": 1, "a": 2}', '"\\ud83e\\udd80"', '"\\u0000"', '"\\ud83e"',
    '["größe", "\\t"]') + (
        "to_jsonb(repeat('x', 1000000))", "to_jsonb(repeat('x', 1100000))", "(repeat('[', 3000) || repeat(']', 3000))",
        "(repeat('{\"a\":', 3000) || '1' || repeat('}', 3000))", "to_jsonb(array_fill(1, ARRAY[100000]))",
        "jsonb_build_object(repeat('k', 100000), 1)")
BOOLEANS = ("true", "false")

SCALARS = {
    "text": TEXTS, "name": TEXTS, "integer": INTEGERS, "smallint": INTEGERS, "bigint": BIGINTS, "double precision": DOUBLES,
    "numeric": DOUBLES, "interval": INTERVALS, "timestamp with time zone": TIMESTAMPS, "jsonb": JSON, "json": JSON,
    "boolean": BOOLEANS,
}

# The shapes that an array of any type can have; {} is replaced by a good element.
SHAPES = (
    "ARRAY[]::{type}[]", "ARRAY[NULL]::{type}[]", "ARRAY[{good}, NULL]::{type}[]", "ARRAY[{good}, {good}]::{type}[]",
    "ARRAY[[{good}, {good}], [{good}, {good}]]::{type}[]", "ARRAY[[[{good}]]]::{type}[]",
    "array_fill({good}::{type}, ARRAY[3], ARRAY[-1])", "array_fill({good}::{type}, ARRAY[65])",
    "array_fill({good}::{type}, ARRAY[1001])", "array_fill({good}::{type}, ARRAY[100000])",
    "array_fill({good}::{type}, ARRAY[100001])", "array_fill(NULL::{type}, ARRAY[1000])",
)
GOOD = {"text": "'fuzz plain'", "jsonb": "'1'", "interval": "'1 s'", "timestamp with time zone": "clock_timestamp()", "boolean": "true"}
# Values that are too slow to be drawn often.
HEAVY = ("1000000", "1100000", "100000", "100001", "99999")


def nasty(type_name):
    """Every nasty value of a type, each cast to it."""
    null = f"NULL::{type_name}"
    if type_name.endswith("[]"):
        element = type_name[:-2]
        good = GOOD.get(element, SCALARS.get(element, ("NULL",))[0])
        shapes = [shape.format(type=element, good=good) for shape in SHAPES]
        elements = [f"ARRAY[{value}]" for value in nasty(element) if not value.startswith("NULL::")]
        return [null, *shapes, *elements]
    return [null, *(f"({value})::{type_name}" for value in SCALARS.get(type_name, ()))]


def enumerations(conn):
    """The labels of every enum type, so that a type of a later version is attacked without being named here."""
    found = {}
    for type_name, label in conn.execute(
            "SELECT format_type(enumtypid, NULL), enumlabel FROM pg_enum ORDER BY enumtypid, enumsortorder"):
        found.setdefault(type_name, []).append(quoted(label))
    return found


def accepted(conn, values):
    """The values that their type does not reject."""
    kept = []
    for value in values:
        try:
            conn.execute(f"SELECT ({value}) IS NULL")
        except psycopg.DataError:
            continue
        except psycopg.errors.StatementTooComplex:
            continue
        kept.append(value)
    return kept


def is_heavy(value):
    return any(number in value for number in HEAVY) and any(name in value for name in ("repeat", "array_fill", "generate_series"))


# The keys of a JSON array that describes jobs are like arguments: each key with each JSON value.

SPECS = _strings(
    "[1]", '["x"]', '[{}]', '[[]]', '{"queue": "fuzz plain"}', '[{"queue": "fuzz plain"}, null]', '[{"queue": "fuzz plain", "Queue": 1}]',
    '[{"queue": "fuzz plain", "unknown key": 1}]', '[{"queue": "fuzz plain", "": 1}]', '[{"queue": ""}]', '[{"queue": null}]')
SPEC_VALUES = ("null", "true", "0", "-1", "1.5", "1e400", "99999999999999999999", '""', '"x"', '"-1 s"', '"infinity"',
               '"300000 years"', '"2147483648 years"', '"2000-02-30"', "[]", "[null]", "[[1]]", '["x", "x"]', "{}", '"' + "k" * 1025 + '"')


def nasty_specs(keys):
    made = list(SPECS)
    for key in keys:
        made += [quoted(f'[{{"queue": "fuzz plain", "{key}": {value}}}]') for value in SPEC_VALUES]
    made.append("(SELECT jsonb_agg(jsonb_build_object('queue', 'fuzz plain')) FROM generate_series(1, 100001))")
    return [f"({value})::jsonb" for value in made]
