"""The functions that are attacked: all functions of the extension, as listed in the catalog.

No function is listed by name, so a new function is attacked automatically.
"""

from dataclasses import dataclass, field

FUNCTIONS = """
SELECT p.oid, n.nspname, p.proname, p.prokind, p.proretset, format_type(p.prorettype, NULL), p.provolatile,
       coalesce(p.proargnames, '{}'), coalesce(p.proargmodes::text[], '{}'),
       ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a(t, n) ORDER BY n), p.pronargdefaults,
       p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE')
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'jobq'
ORDER BY p.proname, p.oid
"""


@dataclass(frozen=True)
class Argument:
    name: str
    type: str
    optional: bool


@dataclass(frozen=True)
class Function:
    oid: int
    schema: str
    name: str
    procedure: bool
    returns_set: bool
    result: str
    volatile: bool
    for_everybody: bool
    arguments: tuple = field(default=())

    @property
    def trigger(self):
        return self.result == "trigger"

    def named(self, name):
        return any(argument.name == name for argument in self.arguments)

    def call(self, values, positional, in_select_list=False):
        """The statement that calls the function with these values, by argument name."""
        if positional:
            # Arguments after the last given one use their defaults; no argument before it may be omitted.
            last = max((number for number, argument in enumerate(self.arguments) if argument.name in values), default=-1)
            given = [values.get(argument.name) for argument in self.arguments[:last + 1]]
            positional = None not in given
        if positional:
            arguments = ", ".join(given)
        else:
            arguments = ", ".join(f"{name} => {value}" for name, value in values.items())
        text = f'{self.schema}.{self.name}({arguments})'
        if self.procedure:
            return "CALL " + text
        if self.trigger:
            return f"SELECT 1 WHERE {text} IS NULL"
        return f"SELECT {text}" if in_select_list else f"SELECT * FROM {text}"


def functions(conn):
    found = []
    for (oid, schema, name, kind, returns_set, result, volatility, names, modes, types, defaults,
         for_everybody) in conn.execute(FUNCTIONS):
        inputs = [given for number, given in enumerate(names) if not modes or modes[number] in "iVb"]
        arguments = tuple(Argument(given, type_name, number >= len(types) - defaults)
                          for number, (given, type_name) in enumerate(zip(inputs, types)))
        found.append(Function(oid, schema, name, kind == "p", returns_set, result, volatility == "v", for_everybody, arguments))
    return found
