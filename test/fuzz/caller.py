"""One client of the attack: makes its share of the calls, with one connection per role, and reports the answers.

It runs as a separate process. It writes each call to memory that its parent can read before it sends the call, so
that a call that never returns or crashes the server can be identified.
"""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus

import roles
import transactions
import values
from stock import Case, Stock, chance_of

LOOK_EVERY = 200        # calls between two queries for the existing jobs
BOUND = 60              # seconds; no call may take longer. A busy machine may stall for some of them
WAIT_BOUND = 0.2        # for procedures, which may be called with an endless timeout
CRASHES = 5             # number of lost connections after which the client gives up
FIELDS = (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY, DiagnosticField.MESSAGE_DETAIL,
          DiagnosticField.MESSAGE_HINT, DiagnosticField.CONTEXT)
BAD = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)


def _answer(said):
    """Removes the part of the context that repeats the statement, because it names every argument."""
    sqlstate, message, *more = said
    return sqlstate, message, " ".join(more).partition("SQL statement")[0].partition("PL/pgSQL")[0]


@dataclass
class Plan:
    """Data that all clients share; it is created before they are forked."""

    database: str
    seed: str
    functions: list
    nasty: dict             # by type: values that the type accepts
    specs: list             # nasty values for arguments named specs
    product: list           # all combinations (function, argument, value)
    calls: int
    granted: dict           # by role: oids
    judge: object


@dataclass
class Report:
    answers: Counter = field(default_factory=Counter)   # (function name, sqlstate or "")
    refused: Counter = field(default_factory=Counter)   # function name: calls by roles without the privilege
    kinds: Counter = field(default_factory=Counter)
    seconds: Counter = field(default_factory=Counter)   # function name: total time of its calls
    faults: dict = field(default_factory=dict)          # (fault, function): [how often, the first such call]
    faulty: int = 0


class Caller:
    def __init__(self, plan, number, clients, shown):
        self.plan, self.number, self.clients, self.shown = plan, number, clients, shown
        self.report = Report()
        self.stock = Stock()
        self.connections = {}

    def run(self):
        crashes = 0
        admin = roles.connect_again(self.plan.database)
        for index in range(self.number, self.plan.calls, self.clients):
            try:
                if (index // self.clients) % LOOK_EVERY == 0:
                    self.stock.look(admin)
                self._one(index)
            except psycopg.OperationalError as error:
                crashes += 1
                self._fault("connection lost", self.shown.value.decode(errors="replace"), str(error))
                self.connections.clear()
                if crashes == CRASHES:
                    break
                admin = roles.connect_again(self.plan.database)
                with contextlib.suppress(psycopg.OperationalError):   # another crash
                    roles.end_prepared(self.plan.database, f"fuzz {self.number} ")
        self.shown.value = b""
        for conn in self.connections.values():
            conn.close()
        return self.report

    def _connection(self, role):
        if role not in self.connections:
            conn = roles.connect_again(self.plan.database, user=roles.user(role), client_encoding="utf8")
            conn.execute(f"SET statement_timeout = '{BOUND} s'; SET client_min_messages = error")
            self.connections[role] = conn
        return self.connections[role]

    # The calls

    def _draw(self, index, chance):
        """Yields (function, its values): the product of single nasty values first, then combinations."""
        plan = self.plan
        if index < len(plan.product):
            function, argument, value = plan.product[index]
            given = Case(function, self.stock, chance).values(fewest=chance.random() < 0.5)
            return function, self._in_order(function, {**given, argument.name: value})
        function = chance.choice(plan.functions)
        given = Case(function, self.stock, chance).values()
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))):
            if function.arguments:
                argument = chance.choice(function.arguments)
                given[argument.name] = self._nasty(argument, chance)
        return function, self._in_order(function, given)

    def _nasty(self, argument, chance):
        pool = self.plan.specs if argument.name == "specs" else self.plan.nasty[argument.type]
        value = chance.choice(pool)
        return chance.choice(pool) if values.is_heavy(value) else value

    @staticmethod
    def _in_order(function, given):
        return {argument.name: given[argument.name] for argument in function.arguments if argument.name in given}

    def _role(self, function, chance):
        may = [role for role in roles.ROLES if function.oid in self.plan.granted[role]]
        if chance.random() < 0.04:
            return chance.choice(roles.ROLES)
        return chance.choices(may, [roles.WEIGHTS[role] for role in may])[0]

    def _one(self, index):
        chance = chance_of(self.plan.seed, index)
        function, given = self._draw(index, chance)
        role = self._role(function, chance)
        other, other_given = self._draw(len(self.plan.product) + chance.randrange(10**9), chance)
        # The transaction must not fail because of the second call.
        if other.oid not in self.plan.granted[role] or other.procedure or other.trigger:
            other_call = "SELECT 1"
        else:
            other_call = other.call(other_given, False)
        kind = chance.choices(transactions.NAMES, transactions.WEIGHTS)[0]
        call = function.call(given, chance.random() < 0.4, chance.random() < 0.3)
        script = transactions.script(kind, call, other_call, f"fuzz {self.number} {index}", chance)
        self._send(index, function, role, script, other if other_call != "SELECT 1" else None)

    # The answers

    def _send(self, index, function, role, script, other):
        granted = function.oid in self.plan.granted[role]
        text = f"call {index} as {role!r} ({script.kind}): {'; -- then: '.join(script.parts)}"
        self.shown.value = f"{time.monotonic():.1f} {text}"[:8000].encode()
        conn = self._connection(role)
        began = time.monotonic()
        waits = function.procedure and script.kind != "timeout"
        if waits:
            self._bound(conn, WAIT_BOUND)
        answer = self._exec(conn, script.parts[0])
        if answer is None and script.inside:
            answer = self._inside
        for part in script.parts[1:]:
            if answer is None:
                later = self._exec(conn, part)
                if later is not None:
                    self._fault(f"{function.name}: {later[0]} {later[1]} from {part.split(' ', 2)[:2]}", text)
        self._end(conn)
        if waits:
            self._bound(conn, BOUND)
        self.report.seconds[function.name] += time.monotonic() - began
        self._judge(function, granted, script, waits, answer, text, other)

    def _end(self, conn):
        """The limit may even cancel this statement if the machine stalls."""
        for _ in range(100):
            if conn.pgconn.transaction_status == TransactionStatus.IDLE:
                return
            self._exec(conn, "ROLLBACK")

    def _bound(self, conn, seconds):
        """Limits the duration of statements. The statement that sets the limit is itself subject to the previous limit."""
        for _ in range(100):
            if conn.pgconn.exec_(f"SET statement_timeout = {round(seconds * 1000)}".encode()).status == ExecStatus.COMMAND_OK:
                return

    def _exec(self, conn, statement):
        """Returns None, or (sqlstate, message, the other fields of the error)."""
        result = conn.pgconn.exec_(statement.encode())
        if result.status in BAD:
            said = [(result.error_field(which) or b"").decode(errors="replace") for which in FIELDS]
            if not said[0] or conn.pgconn.status != ConnStatus.OK:
                raise psycopg.OperationalError((result.error_message or b"").decode(errors="replace"))
            return _answer(said)
        self._inside = None
        if statement.startswith("SELECT fuzz.attempt") and result.ntuples == 1 and result.get_value(0, 0) is not None:
            self._inside = _answer(result.get_value(0, 0).decode(errors="replace").split("\x01"))
        return None

    def _judge(self, function, granted, script, waits, answer, text, other):
        sqlstate, message, more = answer if answer is not None else (None, "", "")
        self.report.kinds[script.kind] += 1
        if granted:
            self.report.answers[function.name, sqlstate or ""] += 1
        else:
            self.report.refused[function.name] += 1
        if waits and sqlstate == "57014":
            return
        judge = self.plan.judge
        wrong = judge.fault(function, granted, script.kind, sqlstate, message, more)
        # The second call of the transaction may have raised the error.
        if wrong and other is not None and granted and not judge.fault(other, True, script.kind, sqlstate, message, more):
            wrong = None
        if wrong:
            self._fault(f"{function.name}: {wrong}", text, f"{sqlstate} {message}")

    def _fault(self, wrong, text, message=""):
        self.report.faulty += 1
        found = self.report.faults.setdefault(f"{wrong}: {message[:200]}", [0, text])
        found[0] += 1
