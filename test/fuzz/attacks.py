"""Objects that a user may attach to jobq.jobs: triggers, indexes, and constraints, each hostile only to jobs of the queue 'hostile'.

Each attack lists the errors that it may cause in calls that touch such jobs, in addition to the documented ones.
"""

from dataclasses import dataclass

QUEUE = "hostile"
HOSTILE = f"NEW.queue = '{QUEUE}'"


@dataclass(frozen=True)
class Attack:
    name: str
    set_up: str
    tear_down: str
    may_raise: tuple = ()
    unharmed: str = ""      # a query that must be true afterward
    may_refuse: tuple = ()  # jobq may also refuse to work at all, with one of these
    renames: bool = False   # jobs get other ids, and rows of other tables still refer to the old ones


# Activates expressions and constraints after they have been created.
HELPERS = """
CREATE TABLE fuzz.armed (armed boolean);
CREATE TABLE fuzz.names (queue text PRIMARY KEY);
CREATE TABLE fuzz.seen (at timestamptz DEFAULT clock_timestamp(), what text);
INSERT INTO fuzz.names SELECT 'canary ' || n || brief FROM generate_series(1, 400) n, unnest(ARRAY['', ' brief']) brief;
CREATE FUNCTION fuzz.explode(queue text) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF queue = 'hostile' AND EXISTS (SELECT FROM fuzz.armed) THEN
        RAISE division_by_zero;
    END IF;
    RETURN 1;
END $$;
GRANT ALL ON ALL TABLES IN SCHEMA fuzz TO PUBLIC;
"""
ARM = "; INSERT INTO fuzz.armed VALUES (true)"
DISARM = "; DELETE FROM fuzz.armed"


def _trigger(name, when, body, may_raise=(), row="FOR EACH ROW", condition=True, returns="NEW", renames=False):
    """A trigger for the hostile jobs; a DELETE trigger can use OLD only."""
    old = "OLD" if "DELETE" in when else "NEW"
    clause = f"WHEN ({old}.queue = '{QUEUE}')" if condition else ""
    constraint = "CONSTRAINT " if "DEFERR" in row else ""
    set_up = f"""
CREATE FUNCTION fuzz.attack() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
    {body}
    RETURN {returns};
END $f$;
CREATE {constraint}TRIGGER "a hostile" {when} ON jobq.jobs {row} {clause} EXECUTE FUNCTION fuzz.attack()"""
    return Attack(name, set_up, 'DROP TRIGGER "a hostile" ON jobq.jobs; DROP FUNCTION fuzz.attack', may_raise, renames=renames)


RAISE = "RAISE 'hostile';"
TRIGGERS = (
    _trigger("BEFORE UPDATE raises", "BEFORE UPDATE", RAISE, ("P0001",)),
    _trigger("AFTER UPDATE raises", "AFTER UPDATE", RAISE, ("P0001",)),
    _trigger("AFTER INSERT raises", "AFTER INSERT", RAISE, ("P0001",)),
    _trigger("BEFORE INSERT raises", "BEFORE INSERT", RAISE, ("P0001",)),
    _trigger("BEFORE DELETE raises", "BEFORE DELETE", RAISE, ("P0001",), returns="OLD"),
    _trigger("AFTER DELETE raises", "AFTER DELETE", RAISE, ("P0001",), returns="OLD"),
    _trigger("BEFORE UPDATE leaves the row alone", "BEFORE UPDATE", "", returns="NULL"),
    _trigger("BEFORE INSERT leaves the row out", "BEFORE INSERT", "", returns="NULL"),
    _trigger("BEFORE DELETE keeps the row", "BEFORE DELETE", "", returns="NULL"),
    _trigger("UPDATE changes the id", "BEFORE UPDATE", "NEW.id := NEW.id + 1000000;", renames=True),
    _trigger("INSERT changes the id", "BEFORE INSERT", "NEW.id := NEW.id + 1000000;", ("23505",), renames=True),
    _trigger("UPDATE changes the status", "BEFORE UPDATE", "NEW.status := 'cancelled';"),
    _trigger("UPDATE changes the queue", "BEFORE UPDATE", "NEW.queue := 'hostile elsewhere';"),
    _trigger("UPDATE changes the lease", "BEFORE UPDATE", "NEW.lease := 1;"),
    _trigger("UPDATE clears a column that must not be NULL", "BEFORE UPDATE", "NEW.payload := NULL;", ("23502",)),
    _trigger("INSERT clears a column that must not be NULL", "BEFORE INSERT", "NEW.run_at := NULL;", ("23502",)),
    _trigger("each INSERT enqueues elsewhere", "AFTER INSERT", "PERFORM public.jobq_enqueue('hostile echo', to_jsonb(NEW.id));"),
    _trigger("each UPDATE enqueues elsewhere", "AFTER UPDATE", "PERFORM public.jobq_enqueue('hostile echo', to_jsonb(NEW.id));"),
    _trigger("each UPDATE claims", "AFTER UPDATE", "PERFORM public.jobq_claim('hostile', batch => 2);"),
    _trigger("each UPDATE completes what it finds", "BEFORE UPDATE",
             "IF pg_trigger_depth() < 3 THEN PERFORM public.jobq_complete(j.id, j.lease) FROM jobq.jobs j WHERE j.queue = 'hostile'"
             " AND j.status = 'processing'; END IF;", ("27000",)),
    _trigger("BEFORE UPDATE deletes the row", "BEFORE UPDATE", "DELETE FROM jobq.jobs WHERE id = NEW.id;", ("27000",)),
    _trigger("AFTER UPDATE deletes the row", "AFTER UPDATE", "DELETE FROM jobq.jobs WHERE id = NEW.id;"),
    _trigger("AFTER INSERT deletes the row", "AFTER INSERT", "DELETE FROM jobq.jobs WHERE id = NEW.id;"),
    _trigger("AFTER UPDATE updates the row once more", "AFTER UPDATE",
             "IF pg_trigger_depth() < 2 THEN UPDATE jobq.jobs SET metadata = '1' WHERE id = NEW.id; END IF;"),
    _trigger("each change takes 20 ms", "BEFORE INSERT OR UPDATE", "PERFORM pg_sleep(0.02);"),
    _trigger("each change has an exception block", "AFTER INSERT OR UPDATE", "BEGIN PERFORM 1 / 0; EXCEPTION WHEN others THEN NULL; END;"),
    _trigger("each UPDATE tries DDL", "AFTER UPDATE", "ALTER TABLE jobq.jobs SET (fillfactor = 50);", ("55006",)),
    _trigger("each UPDATE changes settings", "BEFORE UPDATE",
             "SET LOCAL search_path = nowhere; SET LOCAL statement_timeout = 0; SET LOCAL enable_indexscan = off;"),
    _trigger("a row trigger sees all rows of the statement", "AFTER INSERT",
             "INSERT INTO fuzz.seen (what) SELECT id::text FROM new_rows;",
             row="REFERENCING NEW TABLE AS new_rows FOR EACH ROW", condition=False),
    _trigger("a statement trigger sees all rows", "AFTER UPDATE",
             "INSERT INTO fuzz.seen (what) SELECT id::text FROM new_rows;",
             row="REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows FOR EACH STATEMENT", condition=False),
    _trigger("a deferred trigger raises", "AFTER INSERT OR UPDATE", RAISE, ("P0001",),
             row="DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"),
    _trigger("a deferred trigger does nothing", "AFTER INSERT OR UPDATE", "",
             row="DEFERRABLE INITIALLY DEFERRED FOR EACH ROW", condition=False),
)

TABLE = "ALTER TABLE jobq.jobs "
INDEXES = (
    Attack("an index's expression raises",
           "CREATE INDEX hostile_idx ON jobq.jobs (fuzz.explode(queue), id)" + ARM, "DROP INDEX jobq.hostile_idx" + DISARM, ("22012",)),
    Attack("an index's predicate raises",
           "CREATE INDEX hostile_idx ON jobq.jobs (id) WHERE fuzz.explode(queue) = 1" + ARM, "DROP INDEX jobq.hostile_idx" + DISARM,
           ("22012",)),
    Attack("a unique index of the user",
           "CREATE UNIQUE INDEX hostile_idx ON jobq.jobs (queue, status, (metadata ->> 'n')) WHERE queue = 'hostile'",
           "DROP INDEX jobq.hostile_idx", ("23505",)),
    Attack("a GIN index on payloads", "CREATE INDEX hostile_idx ON jobq.jobs USING gin (payload)", "DROP INDEX jobq.hostile_idx"),
    Attack("a hash index on the lease", "CREATE INDEX hostile_idx ON jobq.jobs USING hash (lease)", "DROP INDEX jobq.hostile_idx"),
    Attack("an index on payloads that are too large",
           "CREATE INDEX hostile_idx ON jobq.jobs (payload) WHERE queue = 'hostile'", "DROP INDEX jobq.hostile_idx", ("54000",)),
)
# In PostgreSQL 18 and later, RESTRICT has its own SQLSTATE.
RESTRICTED = ("23503", "23001")

CONSTRAINTS = (
    Attack("a CHECK that existing jobs break", TABLE + "ADD CONSTRAINT hostile CHECK (queue <> 'hostile') NOT VALID",
           TABLE + "DROP CONSTRAINT hostile", ("23514",)),
    Attack("a CHECK that raises", TABLE + "ADD CONSTRAINT hostile CHECK (fuzz.explode(queue) = 1)" + ARM,
           TABLE + "DROP CONSTRAINT hostile" + DISARM, ("22012",)),
    Attack("a CHECK on the status", TABLE + "ADD CONSTRAINT hostile CHECK (queue <> 'hostile' OR status <> 'pending') NOT VALID",
           TABLE + "DROP CONSTRAINT hostile", ("23514",)),
    Attack("a foreign key from the queue", TABLE + "ADD CONSTRAINT hostile FOREIGN KEY (queue) REFERENCES fuzz.names NOT VALID",
           TABLE + "DROP CONSTRAINT hostile", ("23503",)),
    Attack("a deferred foreign key from the queue",
           TABLE + "ADD CONSTRAINT hostile FOREIGN KEY (queue) REFERENCES fuzz.names DEFERRABLE INITIALLY DEFERRED NOT VALID",
           TABLE + "DROP CONSTRAINT hostile", ("23503",)),
) + tuple(
    Attack(f"a foreign key to jobs{label}",
           f"CREATE TABLE fuzz.notes (job bigint REFERENCES jobq.jobs {action});"
           f" INSERT INTO fuzz.notes SELECT id FROM jobq.jobs WHERE queue = 'hostile'", "DROP TABLE fuzz.notes", may_raise)
    for label, action, may_raise in (
        ("", "", ("23503",)), (", RESTRICT", "ON DELETE RESTRICT", RESTRICTED), (", CASCADE", "ON DELETE CASCADE", ()),
        (", SET NULL", "ON DELETE SET NULL", ()), (", deferred", "DEFERRABLE INITIALLY DEFERRED", ("23503",)))
) + (
    Attack("a deferrable UNIQUE constraint", TABLE + "ADD CONSTRAINT hostile UNIQUE (id, queue) DEFERRABLE INITIALLY DEFERRED",
           TABLE + "DROP CONSTRAINT hostile"),
    Attack("row security", "ALTER TABLE jobq.jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
           " CREATE POLICY hostile ON jobq.jobs USING (queue <> 'hostile')",
           "DROP POLICY hostile ON jobq.jobs; ALTER TABLE jobq.jobs DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY",
           ("42501",)),
    Attack("an added column", TABLE + "ADD COLUMN tenant int NOT NULL DEFAULT 7", TABLE + "DROP COLUMN tenant", (),
           "SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE tenant IS DISTINCT FROM 7)", ("0A000", "55000")),
    Attack("a column that must not be NULL anymore", "UPDATE jobq.jobs SET metadata = '7' WHERE metadata IS NULL; "
           + TABLE + "ALTER metadata SET NOT NULL, ALTER metadata SET DEFAULT '7'",
           TABLE + "ALTER metadata DROP NOT NULL, ALTER metadata DROP DEFAULT", ("23502",),
           "SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE metadata IS NULL)", ("0A000", "55000", "23502")),
)
ALL = TRIGGERS + INDEXES + CONSTRAINTS
