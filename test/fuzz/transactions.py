"""The kinds of transactions in which a function is called, and the errors that each kind permits in addition."""

from dataclasses import dataclass

# By kind: how often it is drawn, and the SQLSTATEs that only this kind permits.
KINDS = {
    "autocommit": (6, ()),
    "block": (3, ()),
    "rolled back": (2, ()),
    "savepoint rolled back": (2, ()),
    "two in a block": (2, ()),
    "repeatable read": (2, ("40001", "25001")),
    "serializable": (2, ("40001", "25001")),
    "read only": (1, ("25006",)),
    "prepared": (1, ()),
    "prepared, rolled back": (1, ()),
    "cursor": (1, ()),
    "DO block": (1, ()),
    "exception block": (1, ()),
    "timeout": (1, ("57014",)),
    "lock timeout": (1, ("55P03",)),
    "many rows": (1, ()),
}
NAMES = tuple(KINDS)
WEIGHTS = tuple(weight for weight, _ in KINDS.values())

# What the transactions need in the database: a call whose error is caught in a function.
HELPERS = r"""
CREATE SCHEMA fuzz;
GRANT USAGE ON SCHEMA fuzz TO PUBLIC;
CREATE FUNCTION fuzz.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    detail text;
    hint text;
    context text;
BEGIN
    EXECUTE statement;
    RETURN NULL;
EXCEPTION WHEN others THEN
    GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
                            context = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws(E'\x01', sqlstate, said, detail, hint, context);
END $$;
"""


@dataclass(frozen=True)
class Script:
    """The strings to send, one after the other until one fails, and the string that ends the transaction."""

    kind: str
    parts: tuple
    inside: bool = False    # whether the error of the call is in the result of the first part


def _quoted(statement):
    return "$fuzz$" + statement + "$fuzz$"


def script(kind, call, other, name, chance):
    """`other`: a second call, if this kind has one. `name`: a unique name for a prepared transaction."""
    snapshot = "SELECT 1 FROM pg_catalog.pg_class LIMIT 1"
    ending = chance.choice(("COMMIT", "ROLLBACK"))
    if kind == "autocommit":
        parts = (call,)
    elif kind == "block":
        parts = (f"BEGIN; {call}; COMMIT",)
    elif kind == "rolled back":
        parts = (f"BEGIN; {call}; ROLLBACK",)
    elif kind == "savepoint rolled back":
        parts = (f"BEGIN; SAVEPOINT s; {call}; ROLLBACK TO s; {other}; COMMIT",)
    elif kind == "two in a block":
        parts = (f"BEGIN; {call}; SAVEPOINT s; {other}; RELEASE s; {ending}",)
    elif kind == "repeatable read":
        parts = (f"BEGIN ISOLATION LEVEL REPEATABLE READ; {snapshot}; {call}; COMMIT",)
    elif kind == "serializable":
        parts = (f"BEGIN ISOLATION LEVEL SERIALIZABLE; {snapshot}; {call}; {other}; COMMIT",)
    elif kind == "read only":
        parts = (f"BEGIN READ ONLY; {call}; COMMIT",)
    elif kind == "prepared":
        parts = (f"BEGIN; {call}; PREPARE TRANSACTION '{name}'", f"COMMIT PREPARED '{name}'")
    elif kind == "prepared, rolled back":
        parts = (f"BEGIN; {call}; PREPARE TRANSACTION '{name}'", f"ROLLBACK PREPARED '{name}'")
    elif kind == "cursor" and call.startswith("SELECT"):
        fetched = chance.choice(("FETCH 1 FROM c", "FETCH ALL FROM c; CLOSE c", "FETCH 1 FROM c; SAVEPOINT s; FETCH ALL FROM c"))
        parts = (f"BEGIN; DECLARE c CURSOR FOR {call}; {fetched}; {ending}",)
    elif kind == "DO block":
        inner = call if call.startswith("CALL") else call.replace("SELECT", "PERFORM", 1)
        parts = (f"DO $do$ BEGIN {inner}; END $do$",)
    elif kind == "exception block":
        return Script(kind, (f"SELECT fuzz.attempt({_quoted(call)})",), True)
    elif kind == "timeout":
        parts = (f"BEGIN; SET LOCAL statement_timeout = {chance.randrange(1, 6)}; {call}; COMMIT",)
    elif kind == "lock timeout":
        parts = (f"BEGIN; SET LOCAL lock_timeout = {chance.randrange(1, 6)}; {call}; COMMIT",)
    elif kind == "many rows" and call.startswith("SELECT"):
        parts = (f"SELECT * FROM generate_series(1, 3) n, LATERAL ({call} LIMIT 5) l",)
    else:
        return Script("autocommit", (call,))
    return Script(kind, parts)
