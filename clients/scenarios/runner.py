#!/usr/bin/env python3
"""Runs the scenarios with the program of each language, directly and through PgBouncer, and prints one line per scenario.

    runner.py [--client NAME...] [--scenario NAME...] [--way direct|pooler...] [--at-once N] [--limit SECONDS] [--table FILE]
    runner.py --tests          runs only the programs' own tests (a run of all scenarios also includes them)
    runner.py --speed          measures the jobs per second of each program, see speed.py [--rounds N] [--seconds N] [--table FILE]
    runner.py --selftest       plants defects into a worker, each of which a scenario must find
    runner.py --table-of LOG   makes the table from the output of earlier runs, without a server
    runner.py --list           lists the programs, the scenarios, and what each program lacks, without a server

Requires what scripts/clients.sh provides: a server to which a superuser can connect with PGHOST and PGUSER, and the variables
JOBQ_SERVER_DATA, JOBQ_SERVER_PORT, and JOBQ_PASSWORD."""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import yaml

import places
import speed
from play import Play
from table import table

HERE = Path(__file__).parent
WAYS = ("direct", "pooler")


@dataclass
class Scenario:
    name: str
    says: str
    steps: list
    environment: dict = field(default_factory=dict)
    queue: dict = field(default_factory=dict)
    ways: list = field(default_factory=lambda: list(WAYS))
    alone: bool = False
    starves: bool = False


@dataclass
class Program:
    name: str
    title: str
    command: list   # None if the program has only tests of its own
    directory: Path
    build: list = None
    tests: list = None
    needs: list = field(default_factory=list)
    order: int = 1000
    most_slots: int = 1000
    lacks: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)


def read_scenarios():
    with open(HERE / "scenarios.yaml", encoding="utf-8") as file:
        return [Scenario(name, **given) for name, given in yaml.safe_load(file).items()]


def read_programs():
    found = []
    for path in sorted(HERE.parent.glob("*/client.json")):
        given = json.loads(path.read_text(encoding="utf-8"))
        variants = given.pop("variants", [])
        given = {"name": path.parent.name, "directory": path.parent, **given}
        found += [Program(**given)] + [Program(**{**given, "build": None, "tests": None, **variant}) for variant in variants]
    return sorted(found, key=lambda program: (program.order, program.name))


def chosen(all_of, names, what):
    known = {one.name for one in all_of}
    for name in names or []:
        if name not in known:
            sys.exit(f"runner.py: no {what} is called {name!r}; there are {', '.join(sorted(known))}")
    return [one for one in all_of if not names or one.name in names]


class Runs:
    """Plays scenarios, several at the same time, each with its own role, and collects the results."""

    def __init__(self, at_once, limit):
        self.limit, self.at_once = limit, at_once
        self.users = [f"worker{number}" for number in range(at_once)]
        self.free = list(self.users)
        self.lock = threading.Lock()
        self.results = {}
        self.server = places.Server()
        self.directory = tempfile.TemporaryDirectory(prefix="pooler")
        places.set_up(self.users, self.server.password)
        self.pooler = places.Pooler(self.server, self.users, self.directory.name)
        self.pooler.start()

    def end(self):
        self.pooler.stop()

    def play(self, runs):
        """Plays the runs, a list of (program, scenario, way)."""
        apart = [run for run in runs if not run[1].alone]
        with ThreadPoolExecutor(self.at_once) as executor:
            list(executor.map(self.one, apart))
        for run in runs:
            if run[1].alone:
                self.one(run)

    def one(self, run):
        program, scenario, way = run
        with self.lock:
            user = self.free.pop()
        begun = time.monotonic()
        try:
            place = self.pooler if way == "pooler" else self.server
            wrong = Play(scenario, program, place, way, self.server, self.pooler, user, self.limit).run()
        except Exception as error:   # an error of the runner or the server is also a failure
            wrong = f"{type(error).__name__}: {error}"
        finally:
            with self.lock:
                self.free.append(user)
        with self.lock:
            self.results[program.name, scenario.name, way] = wrong
            print(f"{'ok' if wrong is None else 'not ok'} - {program.name}, {way}: {scenario.name}: {scenario.says} "
                  f"({time.monotonic() - begun:.1f} s)" + ("" if wrong is None else f"\n# {wrong}"), flush=True)
        return wrong is None


def lacking(program, scenario, way):
    """Returns why the scenario is not played, or None."""
    why = program.lacks.get(scenario)
    return why.get(way) if isinstance(why, dict) else why


def missing_packages(program):
    """Returns the packages that the program needs and that are not installed, because this release of Debian does not have them."""
    packages = [package for package in program.needs if package not in ("npm", "node-pg", "python3-opentelemetry-sdk")]
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True, check=False).stdout
    return [package for package in packages if f"{package} installed" not in found.splitlines()]


def available(programs):
    """Returns the programs whose packages are installed."""
    found = []
    for program in programs:
        if missing := missing_packages(program):
            print(f"# {program.name} is left out: this release of Debian has no {', '.join(missing)}")
        else:
            found.append(program)
    return found


def build(programs):
    """Returns the programs that could be built."""
    built = []
    for program in programs:
        if program.build is not None:
            done = subprocess.run(program.build, cwd=program.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                print(f"not ok - {program.name}: it cannot be built\n# " + done.stdout.decode(errors="replace").replace("\n", "\n# "))
                continue
        built.append(program)
    return built


def printed_results(log):
    """Returns the printed results; if a run was repeated, the last result counts."""
    found = {}
    for line in Path(log).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(ok|not ok) - (\w+), (\w+): (\w+):", line):
            found[match[2], match[4], match[3]] = None if match[1] == "ok" else line
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("client", "scenario", "way"):
        parser.add_argument(f"--{name}", action="append")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--table")
    parser.add_argument("--table-of")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    scenarios = chosen(read_scenarios(), given.scenario, "scenario")
    programs = chosen(read_programs(), given.client, "client")
    if given.list:
        for program in programs:
            print(f"{program.name}: {program.title}; needs {' '.join(program.needs) or 'nothing'}; "
                  f"lacks {program.lacks or 'nothing'}")
        for scenario in scenarios:
            print(f"{scenario.name}: {scenario.says}")
        return 0
    if given.table_of:
        print(table(programs, scenarios, printed_results(given.table_of)), end="")
        return 0
    runs = Runs(given.at_once, given.limit)
    try:
        if given.selftest:
            from selftest import selftest
            return selftest(runs, scenarios, read_programs())
        if given.speed:
            return show_speeds(runs, programs, given)
        if given.tests:
            scenarios = []
        return play_all(runs, programs, scenarios, given.way or WAYS, given.table, tests=not given.scenario)
    finally:
        runs.end()


def show_speeds(runs, programs, given):
    programs = available(programs)
    there = [program for program in build(programs) if program.command is not None]
    found = speed.speeds(runs.server, runs.users[0], there, given.rounds, given.seconds)
    shown = speed.table(there, found)
    if given.table:
        Path(given.table).write_text(shown, encoding="utf-8")
    print(shown, end="")
    return 0 if len(there) == sum(program.command is not None for program in programs) else 1


def run_tests(programs):
    """Runs the tests of the programs, each in its own database and as its superuser."""
    wrong = 0
    for program in programs:
        if program.tests is None:
            continue
        database = f"tests_{program.name}"
        with psycopg.connect(dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}")
        with psycopg.connect(dbname=database, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION jobq")
        done = subprocess.run(program.tests, cwd=program.directory, env={**os.environ, "PGDATABASE": database}, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode(errors="replace").strip()
        counts = " ".join(line for line in said.splitlines()
                          if re.match(r"Ran \d|OK|# (pass|fail|skipped) \d|\d+ passed, \d+ failed", line))
        print(f"{'ok' if done.returncode == 0 else 'not ok'} - {program.name}: tests of its own ({counts})", flush=True)
        if done.returncode != 0:
            wrong += 1
            print("# " + said.replace("\n", "\n# "), flush=True)
    return wrong


def play_all(runs, programs, scenarios, ways, table_file, tests):
    programs = available(programs)
    built = build(programs)
    wrong_tests = run_tests(built) if tests else 0
    planned = [(program, scenario, way) for program, scenario, way in itertools.product(built, scenarios, ways)
               if program.command is not None and way in scenario.ways and lacking(program, scenario.name, way) is None]
    runs.play(planned)
    failed = sum(wrong is not None for wrong in runs.results.values()) + len(programs) - len(built) + wrong_tests
    passed = sum(wrong is None for wrong in runs.results.values()) + (
        sum(program.tests is not None for program in built) - wrong_tests if tests else 0)
    if table_file:
        Path(table_file).write_text(table(programs, scenarios, runs.results), encoding="utf-8")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
