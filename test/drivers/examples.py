"""Runs the programs of examples/: jobs that succeed, fail, and are canceled, and SIGTERM at the end."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psycopg

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
conn = psycopg.connect(autocommit=True)
failed = 0


def check(got, wanted, label):
    global failed
    failed += got != wanted
    print(f"{'ok' if got == wanted else 'not ok'} - examples: {label}" + ("" if got == wanted else f": {got!r}, not {wanted!r}"))


def value(text, *values):
    return conn.execute(text, values).fetchone()[0]


def becomes(wanted, text, *values):
    """Waits up to a minute until a query returns the expected value; returns the last value."""
    give_up = time.monotonic() + 60
    while (got := value(text, *values)) != wanted and time.monotonic() < give_up:
        time.sleep(0.05)
    return got


STATUSES = "SELECT string_agg(status::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue = %s"
RUNNING = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'processing'"


def work(queue, *command, jobs):
    """Starts a worker, cancels its last job while it runs, and stops the worker. Returns its output without IDs."""
    # The worker notices the cancellation with its next heartbeat. A shorter timeout would expire on a busy machine.
    conn.execute("SELECT jobq_create_queue(%s, backoff_base => '100 ms', heartbeat_timeout => '15 s')", (queue,))
    ids = [value("SELECT jobq_enqueue(%s, %s::jsonb, kind => %s, max_attempts => 2, run_at => '0044-03-15 BC')", queue, payload, kind)
           for kind, payload in jobs[:-1]]
    worker = subprocess.Popen([*command], stdout=subprocess.PIPE, text=True)
    try:
        output = watch(queue, worker, jobs[-1])
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
    every = [job for job, in conn.execute("SELECT id FROM jobq.jobs WHERE queue = %s ORDER BY id", (queue,))]
    for number, job in enumerate(every, 1):
        output = output.replace(f"job {job}:", f"job {number}:")
    return ids, output.splitlines()


def watch(queue, worker, job):
    command = worker.args
    check(becomes("completed failed", STATUSES, queue), "completed failed", f"{command[0]}: a job completes, and a job fails permanently")
    kind, payload = job
    last = value("SELECT jobq_enqueue(%s, %s::jsonb, kind => %s)", queue, payload, kind)
    becomes(1, RUNNING, queue)
    check(value("SELECT jobq_cancel(%s)", last), "processing", "the cancellation of a running job is requested")
    check(becomes("completed failed cancelled", STATUSES, queue), "completed failed cancelled", "the job is cancelled")
    worker.send_signal(signal.SIGTERM)
    try:
        output, _ = worker.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        return "did not end"
    finally:
        check(worker.poll() in (0, 143), True, "SIGTERM ends the worker")
    return output


def python_worker():
    conn.execute("CREATE TABLE hashes (text text, digest text)")
    ids, lines = work("work", sys.executable, str(EXAMPLES / "worker.py"), "work", jobs=[
        ("hash", '{"text": "hello"}'), ("hash", '{"txt": "hello"}'), ("count", '{"steps": 60}')])
    check(lines, ["job 1: hash, attempt 1", "job 1: completed", "job 2: hash, attempt 1", "job 2: scheduled",
                  "job 2: hash, attempt 2", "job 2: failed", "job 3: count, attempt 1", "job 3: cancelled"], "worker.py reports what happened")
    check(value("SELECT count(*) FROM hashes WHERE digest = encode(sha256('hello'), 'hex')"), 1, "the effect is stored once")
    check(value("SELECT jobq_result(%s) = (SELECT to_jsonb(digest) FROM hashes)", ids[0]), True, "the effect is the result of the job")
    check(value("SELECT error FROM jobq.jobs WHERE id = %s", ids[1]), "KeyError: 'text'", "the error is recorded")


def python_worker_and_errors_of_sql():
    """Errors of the handler that psycopg also calls OperationalError although the connection is not broken."""
    conn.execute("""CREATE FUNCTION locked() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'it is locked' USING ERRCODE = '55P03'; END $$""")
    conn.execute("CREATE TRIGGER locked BEFORE INSERT ON hashes FOR EACH ROW WHEN (NEW.text = 'locked') EXECUTE FUNCTION locked()")
    ids, lines = work("locked", sys.executable, str(EXAMPLES / "worker.py"), "locked", jobs=[
        ("hash", '{"text": "free"}'), ("hash", '{"text": "locked"}'), ("count", '{"steps": 60}')])
    check(lines[-3:-2], ["job 2: failed"], "worker.py: an SQL error in the handler is a failed attempt")
    check(value("SELECT split_part(error, E'\\n', 1) FROM jobq.jobs WHERE id = %s", ids[1]), "LockNotAvailable: it is locked", "worker.py: the SQL error is recorded")


def python_worker_and_collisions():
    """The first four attempts of the job end with 40001 or 40P01."""
    conn.execute("CREATE SEQUENCE tries")
    conn.execute("""CREATE FUNCTION collides() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE try bigint = nextval('tries');
        BEGIN
            IF try <= 4 THEN RAISE 'it collides' USING ERRCODE = CASE try % 2 WHEN 0 THEN '40001' ELSE '40P01' END; END IF;
            RETURN NEW;
        END $$""")
    conn.execute("CREATE TRIGGER collides BEFORE INSERT ON hashes FOR EACH ROW WHEN (NEW.text = 'collides') EXECUTE FUNCTION collides()")
    ids, lines = work("collisions", sys.executable, str(EXAMPLES / "worker.py"), "collisions", jobs=[
        ("hash", '{"text": "collides"}'), ("hash", '{"txt": "hello"}'), ("count", '{"steps": 60}')])
    check(lines.count("job 1: collided"), 4, "worker.py releases a job whose transaction had a conflict")
    check(value("SELECT attempts FROM jobq.jobs WHERE id = %s", ids[0]), 1, "worker.py: the conflicts do not count as attempts")


def python_worker_and_statement_timeout():
    queue = "canceled waits"
    command = [sys.executable, str(EXAMPLES / "worker.py"), queue]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PGOPTIONS": "-c statement_timeout=1000"})
    try:
        said = worker.stderr.readline() + worker.stderr.readline()
        value("SELECT jobq_enqueue(%s, '{\"text\": \"late\"}', kind => 'hash')", queue)
        check(becomes("completed", STATUSES, queue), "completed", "worker.py continues when statement_timeout ends a wait")
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    check("see the setting statement_timeout" in said, True, "worker.py names the setting")


def orders_and_collisions(command, program):
    """The first three charges of an order end with 40001 or 40P01."""
    conn.execute("CREATE TABLE charges (order_id bigint, cents int); CREATE TABLE shipments (order_id bigint); CREATE TABLE refunds (order_id bigint, cents int)")
    conn.execute("ALTER SEQUENCE tries RESTART 2")
    conn.execute("CREATE TRIGGER collides BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION collides()")
    job = value("SELECT jobq_enqueue(%s, '{\"order\": 1, \"cents\": 5}', max_attempts => 1)", program)
    worker = subprocess.Popen([*command, str(EXAMPLES / program), program], stdout=subprocess.PIPE, text=True)
    try:
        check(becomes(1, "SELECT count(*) FROM shipments"), 1, f"{program} ships an order whose charge had conflicts")
        value("SELECT jobq_signal_job(%s, 'delivered')", job)
        check(becomes("completed", STATUSES, program), "completed", f"{program} completes it")
    finally:
        worker.kill()
        output, _ = worker.communicate()
    check((output.count("collided"), value("SELECT attempts FROM jobq.jobs WHERE id = %s", job)), (3, 1), f"{program} does not count the conflicts as attempts")
    conn.execute("DROP TABLE charges, shipments, refunds")


def shell_worker():
    ids, lines = work("sh", str(EXAMPLES / "worker.sh"), "sh", "sh", "-c", 'read -r seconds; sleep "$seconds" && echo slept', jobs=[
        ("", "0"), ("", '"x"'), ("", "60")])
    check(lines, ["job 1: completed: t", "job 2: scheduled", "job 2: failed", "job 3: cancelled"], "worker.sh reports what happened")
    check(value("SELECT jobq_result(%s)", ids[0]), "slept", "the output of the command is the result")


def shell_worker_cuts_texts():
    program = '''import sys, time
seconds = int(input())
time.sleep(seconds)
sys.stdout.buffer.write(b"x" + 6000 * b"\\xc3\\xa4")
sys.stderr.buffer.write(600 * b"\\xc3\\xa4" + b"x")
sys.exit(seconds)'''
    ids, _ = work("cut", str(EXAMPLES / "worker.sh"), "cut", sys.executable, "-c", program, jobs=[("", "0"), ("", "1"), ("", "60")])
    check(value("SELECT jobq_result(%s)", ids[0]), "x" + 4999 * "\u00e4", "worker.sh cuts a result between two characters")
    check(value("SELECT error FROM jobq.jobs WHERE id = %s", ids[1]), "exit status 1: " + 499 * "\u00e4" + "x", "worker.sh cuts an error between two characters")


def stop_waiting(command, program):
    """SIGTERM ends a worker that waits for a job. Waits last an hour here, so a wait that ends has been ended by the signal."""
    queue = f"idle {program}"
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory, program)
        shutil.copy(EXAMPLES / program, copy)
        text = copy.read_text()
        copy.write_text(text.replace("1 min", "1 hour"))
        check(text.count("1 min"), 1, f"{program} waits for a minute")
        value("SELECT jobq_enqueue(%s)", queue)
        worker = subprocess.Popen([*command, str(copy), queue, "true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if program == "worker.sh":
                check(becomes("completed", STATUSES, queue), "completed", f"{program} runs a job without a kind")
            check(becomes(1, "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'call jobq_wait%%' AND wait_event_type = 'Extension'"
                             " AND datname = current_database()"), 1, f"{program} waits")
            worker.send_signal(signal.SIGTERM)
            output, errors = worker.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            output, errors = "did not end", ""
        finally:
            worker.kill()
            worker.wait()
    check(output == "did not end", False, f"SIGTERM ends {program} while it waits")
    check(becomes(0, "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'call jobq_wait%%' AND state = 'active'"
                     " AND datname = current_database()"), 0, f"{program} leaves no waiting session")
    return errors


def says_what_it_leaves():
    errors = stop_waiting([sys.executable], "worker.py")
    check("jobs that this worker does not claim are waiting: 1 without a kind" in errors, True, "worker.py reports jobs that it does not claim")
    check(value(STATUSES, "idle worker.py"), "pending", "and does")


def names_its_package():
    """Without psycopg."""
    ended = subprocess.run([sys.executable, "-I", "-S", str(EXAMPLES / "worker.py")], capture_output=True, text=True)
    check((ended.returncode, "apt-get install python3-psycopg" in ended.stderr, "Traceback" in ended.stderr), (1, True, False),
          "worker.py says what to install")


python_worker()
python_worker_and_errors_of_sql()
python_worker_and_collisions()
python_worker_and_statement_timeout()
orders_and_collisions([sys.executable], "order.py")
orders_and_collisions(["node"], "order.mjs")
shell_worker()
shell_worker_cuts_texts()
says_what_it_leaves()
stop_waiting(["bash"], "worker.sh")
names_its_package()
sys.exit(failed > 0)
