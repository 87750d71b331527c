"""Tests the configurations of monitoring/ with Debian's Prometheus and exporters on a live server.

Needs a server with jobq preloaded (PGHOST, PGPORT, PGUSER); JOBQ_GRAFANA names a directory with @grafana/schema and typescript.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "audit"))

import library  # noqa: F401
import yaml

from jobq.audit.metrics import FAMILIES
from support import Results, connect, scratch_database, wait_until

MONITORING = Path(__file__).resolve().parent.parent.parent / "monitoring"
PATIENCE = 90
GENERATED = ("sql_exporter.yml", "postgres_exporter.yml", "prometheus.yml", "grafana.json")

LOAD = """
SELECT count(*) FROM jobq_enqueue_many('mails "a" \\ b', array_fill('{}'::jsonb, '{20}'), kind => 'welcome');
SELECT count(*) FROM jobq_enqueue_many('mails "a" \\ b', array_fill('{}'::jsonb, '{5}'));
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('mails "a" \\ b', 'w1', batch => 7)) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('mails "a" \\ b', 'w1', batch => 2)) c;
SELECT count(*) FROM jobq_claim('mails "a" \\ b', 'w2', batch => 3, heartbeat_timeout => '1 hour');
SELECT jobq_create_queue('paused'), jobq_pause_queue('paused');
SELECT jobq_schedule('nightly', '0 3 * * *', 'mails "a" \\ b');
"""
# Functions and an operator that the query of an exporter calls if it does not name their schemas.
SHADOWS = """
CREATE SCHEMA shadow;
CREATE FUNCTION shadow.jobq_metrics() RETURNS TABLE (name text, labels jsonb, value float8) LANGUAGE sql AS $$ SELECT 'shadow', '{}'::jsonb, 666::float8 $$;
CREATE FUNCTION shadow.pick(jsonb, jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'shadow' $$;
CREATE OPERATOR shadow.->> (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = shadow.pick);
GRANT USAGE ON SCHEMA shadow TO exporter;
"""
# Metrics that change by themselves between two queries.
MOVES = re.compile("oldest|overdue|rounds|duty_jobs|launcher|shared_memory_entries")


def run(*command, stdin=None, cwd=None):
    """Returns whether the program succeeded, and its output."""
    done = subprocess.run(command, input=stdin, cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Scraper:
    """A program that runs until the end of the test."""

    def __init__(self, stack, directory, name, *command, **environment):
        self.log = Path(directory) / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT,
                                            env={**os.environ, **environment})
        stack.callback(self.end)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def said(self):
        return self.log.read_text(errors="replace")[-2000:]


def ask(port, path, **parameters):
    address = f"http://127.0.0.1:{port}{path}" + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.read().decode()
    except OSError:
        return ""


def generate(conn, made, *options):
    families = conn.execute("SELECT name, labels FROM jobq.metric_families()").fetchall()
    return run("/usr/bin/python3", str(MONITORING / "generate.py"), made, *options, stdin="".join(f"{name}|{labels}\n" for name, labels in families))


def check_generated(results, conn):
    """The files are those that generate.py makes from the catalog."""
    with tempfile.TemporaryDirectory() as made:
        good, said = generate(conn, made)
        results.check(good, "generate.py", said)
        for name in GENERATED:
            results.check((Path(made) / name).read_text() == (MONITORING / name).read_text(), f"{name} is the output of generate.py")


def queries(directory):
    """The query of each exporter."""
    yield "sql_exporter.yml", yaml.safe_load((Path(directory) / "sql_exporter.yml").read_text())["jobs"][0]["queries"][0]["query"]
    yield "postgres_exporter.yml", yaml.safe_load((Path(directory) / "postgres_exporter.yml").read_text())["jobq"]["query"]


def check_search_path(results, conn, schema, *options):
    """The queries call the functions of the extension, whatever is earlier in the search path."""
    with tempfile.TemporaryDirectory() as made:
        good, said = generate(conn, made, *options)
        results.check(good, f"generate.py for the schema {schema}", said)
        for name, query in queries(made):
            with conn.transaction(force_rollback=True):
                conn.execute("SET LOCAL search_path = shadow, pg_catalog")
                metrics = {row[0] for row in conn.execute(query)}
                labels = {value for row in conn.execute(query) for value in row[1:-1]}
            results.check("jobq_info" in metrics and "shadow" not in metrics | labels, f"{name}: calls jobq_metrics() of the schema {schema}", metrics)


def check_text(results, conn):
    """promtool parses the text and reports no problem."""
    good, said = run("promtool", "check", "metrics", stdin=conn.execute("SELECT jobq_prometheus()").fetchone()[0])
    results.check(good and not said, "promtool check metrics", said)


def check_rules(results):
    for label, command in [("check rules", ("promtool", "check", "rules", "alerts.yml")), ("test rules", ("promtool", "test", "rules", "alerts_test.yml")),
                           ("check config", ("promtool", "check", "config", "prometheus.yml"))]:
        good, said = run(*command, cwd=MONITORING)
        results.check(good, f"promtool {label}", said)
    # An alert that no test triggers would not be tested.
    tried = {test["alertname"] for group in yaml.safe_load((MONITORING / "alerts_test.yml").read_text())["tests"]
             for test in group["alert_rule_test"] if test.get("exp_alerts")}
    results.equal({rule["alert"] for rule in rules()} - tried, set(), "every alert is seen to fire")


def rules():
    return [rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((MONITORING / "grafana.json").read_text())


def expressions():
    """Every PromQL expression of the alerts and of the dashboard, with values for its variables."""
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"].replace("$__rate_interval", "5m").replace("$queue", ".*")


def check_dashboard(results):
    """The published types of Grafana's dashboards accept the dashboard and reject broken ones."""
    modules = Path(os.environ["JOBQ_GRAFANA"])

    def accepted(text):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "node_modules").symlink_to(modules / "node_modules")
            (Path(directory) / "dashboard.ts").write_text(
                f"import type {{ Dashboard }} from '@grafana/schema';\nexport const dashboard: Dashboard = {text};\n")
            return run("node", str(modules / "node_modules/typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext",
                       "--moduleResolution", "nodenext", "--target", "es2022", "dashboard.ts", cwd=directory)

    text = (MONITORING / "grafana.json").read_text()
    good, said = accepted(text)
    results.check(good, "grafana.json has the types of @grafana/schema", said)
    for label, broken in [("an unknown member", text.replace('"refresh": "30s"', '"refreshing": "30s"')),
                          ("a panel without a type", text.replace('"type": "timeseries",', "", 1)),
                          ("a text for a number", text.replace('"schemaVersion": 39', '"schemaVersion": "39"'))]:
        good, said = accepted(broken)
        results.check(not good and broken != text, f"they reject {label}", said)
    panels = dashboard()["panels"]
    results.equal(len({panel["id"] for panel in panels}), len(panels), "each panel has a unique id")
    taken = [(x, y) for panel in panels for place in [panel["gridPos"]] for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])]
    results.check(len(taken) == len(set(taken)) and max(x for x, _ in taken) < 24, "no panel covers another")


def configure(directory, database, ports):
    """The configurations with the addresses of this server, as a DBA would change them, and no other change."""
    host, port = os.environ["PGHOST"], os.environ["PGPORT"]
    # The parser of this exporter requires a host before the path, so the socket is a parameter.
    address = f"postgres://exporter@/{database}?host={urllib.parse.quote(host, safe='')}&port={port}&sslmode=disable"
    exporter = (MONITORING / "sql_exporter.yml").read_text()
    exporter = exporter.replace("postgres://exporter:PASSWORD@localhost:5432/DATABASE?sslmode=disable", address).replace("'15s'", "'1s'")
    (directory / "sql_exporter.yml").write_text(exporter)
    shutil.copy(MONITORING / "postgres_exporter.yml", directory)
    shutil.copy(MONITORING / "alerts.yml", directory)
    scrape = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    scrape["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = scrape["scrape_configs"][0]
    scrape["scrape_configs"] = [{**job, "job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{ports[name]}"]}]}
                                for name in ("sql", "postgres")]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(scrape))
    return address


def told(conn):
    """The metrics of jobq_metrics: names and labels, and values."""
    rows = conn.execute("SELECT name, labels::text, value FROM jobq_metrics()").fetchall()
    return {(name, tuple(sorted(json.loads(labels).items()))): value for name, labels, value in rows}


def scraped(port, job):
    """The same metrics from Prometheus, without the labels that it adds."""
    answer = json.loads(ask(port, "/api/v1/query", query=f'{{__name__=~"jobq_.*",job="{job}"}}') or "{}")
    found = {}
    for series in answer.get("data", {}).get("result", []):
        labels = {name: value for name, value in series["metric"].items() if name not in ("__name__", "job", "instance", "database", "host", "server")}
        found[series["metric"]["__name__"], tuple(sorted(labels.items()))] = float(series["value"][1])
    return found


def differences(conn, port, job):
    """Differences between jobq_metrics and Prometheus, except for metrics that change by themselves; and names that only one has."""
    here, there = told(conn), scraped(port, job)
    found = [f"{key}: {here.get(key)} here, {there.get(key)} there" for key in here.keys() | there.keys()
             if (key in here) != (key in there) or (here[key] != there[key] and not MOVES.search(key[0]))]
    return sorted(found)[:5] if there else ["nothing is scraped"]


def check_live(results, conn, database):
    ports = {name: free_port() for name in ("sql", "postgres", "prometheus")}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = configure(directory, database, ports)
        programs = [
            Scraper(stack, directory, "sql_exporter", "prometheus-sql-exporter", "-config.file", "sql_exporter.yml", "-web.listen-address", f"127.0.0.1:{ports['sql']}"),
            Scraper(stack, directory, "postgres_exporter", "prometheus-postgres-exporter", "--extend.query-path=postgres_exporter.yml",
                    f"--web.listen-address=127.0.0.1:{ports['postgres']}", DATA_SOURCE_NAME=address),
            Scraper(stack, directory, "prometheus", "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                    f"--web.listen-address=127.0.0.1:{ports['prometheus']}")]
        port = ports["prometheus"]
        for job in ("sql", "postgres"):
            same = wait_until(lambda job=job: not differences(conn, port, job), PATIENCE, pause=0.5)
            results.check(same, f"Prometheus has the metrics of jobq_metrics through {job}_exporter: {len(scraped(port, job))} series", differences(conn, port, job))
        conn.execute("""SELECT jobq_complete(id, lease) FROM jobq_claim('mails "a" \\ b', 'w1', batch => 4)""")
        for job in ("sql", "postgres"):
            total = f'sum(jobq_jobs_completed_total{{job="{job}",queue="mails \\"a\\" \\\\ b"}})'
            results.check(wait_until(lambda total=total: value_of(port, total) == 11, PATIENCE, pause=0.5), f"{job}: later changes are scraped, too", value_of(port, total))
            quantile = f'histogram_quantile(0.99, sum by (le) (jobq_job_run_seconds_bucket{{job="{job}"}}))'
            results.check(0 < (value_of(port, quantile) or 0) < 3600, f"{job}: a quantile of a histogram", value_of(port, quantile))
        check_expressions(results, conn, port)
        for program in programs:
            results.check(program.process.poll() is None, f"{program.log.stem} runs on", program.said())


def value_of(port, expression):
    answer = json.loads(ask(port, "/api/v1/query", query=expression) or "{}")
    found = answer.get("data", {}).get("result", [])
    return float(found[0]["value"][1]) if found else None


def check_expressions(results, conn, port):
    """Prometheus can parse each expression, and each metric in it is a metric of jobq."""
    names = {name for name, _ in told(conn)} | {row[0] for row in conn.execute("SELECT name FROM jobq.metric_families()")}
    names |= set(FAMILIES)
    for label, expression in expressions():
        answer = json.loads(ask(port, "/api/v1/query", query=expression) or "{}")
        results.equal(answer.get("status"), "success", f"{label}: Prometheus can evaluate it")
        unknown = set(re.findall(r"\bjobq_\w+", expression)) - names
        results.equal(unknown, set(), f"{label}: its metrics are those of jobq")
    answer = json.loads(ask(port, "/api/v1/query", query="no such(") or "{}")
    results.equal(answer.get("status"), "error", "Prometheus rejects nonsense")
    loaded = json.loads(ask(port, "/api/v1/rules") or "{}").get("data", {}).get("groups", [])
    results.equal({rule["name"] for group in loaded for rule in group["rules"]}, {rule["alert"] for rule in rules()}, "Prometheus has loaded the alerts")
    results.equal([rule for group in loaded for rule in group["rules"] if rule["health"] == "err"], [], "Prometheus can evaluate the alerts")


def main():
    results = Results("monitoring")
    with scratch_database("monitoring") as database, connect(database) as conn:
        conn.execute("DO $$ BEGIN CREATE ROLE exporter LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        conn.execute("GRANT pg_monitor TO exporter")
        conn.execute("SELECT jobq_grant('exporter', 'monitor')")
        for statement in LOAD.strip().splitlines():
            conn.execute(statement)
        conn.execute(SHADOWS)
        conn.execute(f'ALTER ROLE exporter IN DATABASE "{database}" SET search_path = shadow, public, pg_catalog')
        check_generated(results, conn)
        check_search_path(results, conn, "public")
        check_text(results, conn)
        check_rules(results)
        check_dashboard(results)
        check_live(results, conn, database)
        conn.execute("SELECT jobq_revoke('exporter', 'monitor')")
        conn.execute('DROP EXTENSION jobq CASCADE; CREATE SCHEMA "Job Queue"; CREATE EXTENSION jobq SCHEMA "Job Queue"')
        check_search_path(results, conn, "Job Queue", "--schema", "Job Queue")
    results.finish()


if __name__ == "__main__":
    main()
