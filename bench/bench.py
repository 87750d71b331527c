# The main program of the benchmark. Chooses the groups, runs them, checks the goals, and writes results.json, report.md, and the
# plots. run.sh calls it with a server of its own (PGHOST, BENCH_DATA, BENCH_NODE, BENCH_RESULTS).
# Environment: QUICK=1 runs the headline groups with short rounds. ONLY="group ..." runs only these groups. The exit code is 1 if
# a job was lost or run twice, or if a group failed. A goal that is not met is not a failure, because results differ from machine
# to machine.

import importlib
import json
import os
import statistics
import sys
import time
import traceback

import psycopg

import contenders
import machine
import report
from statistic import median_and_interval

# In the order of the report: the module in scenarios/, and whether the quick mode runs it.
GROUPS = [('ceilings', True), ('lifecycle', True), ('batches', True), ('enqueue', True), ('access', False), ('peers', True), ('clients', False), ('brokers', False), ('router', False), ('wal', True), ('payload', False),
          ('empty', True), ('wake', True), ('sleepers', False), ('control', True), ('steps', True), ('waiters', False), ('held', False), ('workers', False), ('backlog', False),
          ('front', False), ('lanes', False), ('heartbeat', False), ('metrics', False), ('duties', False), ('schedules', True), ('handlers', True)]
# Groups for developers of jobq, not for the published page. They run only if they are named.
NAMED_ONLY = ['ablation', 'several', 'batch_members', 'combined']


class Skip(Exception):
    """Raised by a scenario that cannot run here. The text is the reason."""


class Bench:
    def __init__(self):
        self.quick = os.environ.get('QUICK') == '1'
        self.conn = self.connect()
        self.results, self.goals, self.failures, self.skipped, self.series = [], [], [], {}, {}
        self.rates, self.notes, self.times, self.conns = {}, {}, {}, {}
        self.group = None
        self.started = time.monotonic()

    def connect(self, database=None, **options):
        return psycopg.connect(dbname=database or 'bench', autocommit=True, application_name='bench', **options)

    def conn_of(self, contender):
        """The control connection to the server of the contender."""
        if contender.host is None:
            return self.conn
        if contender.host not in self.conns:
            self.conns[contender.host] = self.connect(host=contender.host)
        return self.conns[contender.host]

    def say(self, text):
        print(f'{time.monotonic() - self.started:6.0f} s  {text}', flush=True)

    def scale(self, full, quick):
        return quick if self.quick else full

    def add(self, group, cell, sync, number, metrics):
        self.results.append({'group': group, 'cell': cell, 'sync': sync, 'round': number, 'metrics': metrics})

    def values(self, group, cell, sync, metric='jobs_per_s'):
        return [r['metrics'][metric] for r in self.results
                if (r['group'], r['cell'], r['sync']) == (group, cell, sync) and r['metrics'].get(metric) is not None]

    def median(self, group, cell, sync, metric='jobs_per_s'):
        values = self.values(group, cell, sync, metric)
        return statistics.median(values) if values else None

    def ratio(self, group, cell, base, sync, metric='jobs_per_s'):
        """The median of one cell divided by the median of another cell of the same run."""
        above, below = self.median(group, cell, sync, metric), self.median(group, base, sync, metric)
        return above / below if above is not None and below else None

    def ratios(self, group, cell, base, sync, metric='jobs_per_s'):
        """The ratio within each round."""
        pairs = zip(self.values(group, cell, sync, metric), self.values(group, base, sync, metric))
        return [above / below for above, below in pairs if below]

    def paired(self, group, cell, base, sync, metric='jobs_per_s'):
        """Median of the ratios within each round, and its interval."""
        ratios = self.ratios(group, cell, base, sync, metric)
        return median_and_interval(ratios) if ratios else (None, None)

    def goal(self, group, text, value, relation, target, unit='', note='', interval=None):
        met = None if value is None else (value >= target if relation == '>=' else value <= target)
        self.goals.append({'group': group, 'goal': text, 'measured': value, 'relation': relation, 'target': target, 'unit': unit,
                           'note': '; '.join(filter(None, (note, str(interval or '')))), 'met': met,
                           'open': interval is not None and interval.leaves_open(target)})

    def goal_of_pairs(self, group, text, cell, base, sync, relation, target, metric='jobs_per_s', note=''):
        """A goal for the ratio of two cells."""
        ratio, interval = self.paired(group, cell, base, sync, metric)
        self.goal(group, text, ratio, relation, target, note=note, interval=interval)

    def fail(self, text):
        self.failures.append({'group': self.group, 'failure': text})
        self.say('FAILED: ' + text)

    def note(self, group, text):
        self.notes.setdefault(group, []).append(text)

    def has_function(self, name):
        return self.conn.execute('SELECT count(*) FROM pg_proc WHERE proname = %s', (name,)).fetchone()[0] > 0

    def setting(self, name, value, conn=None):
        """Sets a server-wide setting, or resets it if the value is None, and waits until the change is in effect."""
        conn = conn or self.conn
        if value is None:
            conn.execute(f'ALTER SYSTEM RESET {name}')
        else:
            conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        conn.execute('SELECT pg_reload_conf()')
        time.sleep(0.5)

    def fresh_database(self, name, host=None):
        """Creates a database that contains only jobq and returns a connection to it. host: a server other than the usual one."""
        self.drop_database(name, host)
        admin = self.connect('postgres', host=host)
        admin.execute(f'CREATE DATABASE {name}')
        admin.close()
        conn = self.connect(name, host=host)
        conn.execute(contenders.COMMON)
        contenders.JOBQ.setup(conn)
        return conn

    def drop_database(self, name, host=None):
        admin = self.connect('postgres', host=host)
        admin.execute(f'DROP DATABASE IF EXISTS {name} WITH (FORCE)')
        admin.close()


def setup():
    elsewhere = [contender for contender in (contenders.BASE, contenders.SMALL_PAGES) if contender]
    for host in [None] + [contender.host for contender in elsewhere]:
        admin = psycopg.connect(dbname='postgres', autocommit=True, **({'host': host} if host else {}))
        admin.execute('CREATE DATABASE bench')
        admin.close()
    os.environ['PGDATABASE'] = 'bench'
    bench = Bench()
    bench.conn.execute(contenders.COMMON)
    for contender in (contenders.TEXTBOOK, contenders.TUNED, contenders.BARE, contenders.JOBQ):
        contender.setup(bench.conn)
    for contender in elsewhere:
        bench.conn_of(contender).execute(contenders.COMMON)
        contender.setup(bench.conn_of(contender))
    return bench


def chosen_groups(quick):
    only = os.environ.get('ONLY', '').replace(',', ' ').split()
    known = [name for name, _ in GROUPS] + NAMED_ONLY
    unknown = [name for name in only if name not in known]
    if unknown:
        sys.exit(f"bench: no such group: {' '.join(unknown)}; there are: {' '.join(known)}")
    return only or [name for name, in_quick in GROUPS if in_quick or not quick]


def run_group(bench, name):
    module = importlib.import_module(f'scenarios.{name}')
    bench.group = name
    started = time.monotonic()
    before = len(bench.failures)
    try:
        module.run(bench)
    except Skip as reason:
        bench.skipped[name] = str(reason)
        bench.say(f'{name}: skipped: {reason}')
    except Exception:
        traceback.print_exc()
        bench.fail(traceback.format_exc().strip().splitlines()[-1])
    bench.times[name] = time.monotonic() - started
    wrong = len(bench.failures) - before
    bench.say(f'{name}: {bench.times[name]:.0f} s' + (f', {wrong} failures' if wrong else ''))


def results_of(bench, groups):
    return {'machines': dict.fromkeys(groups, machine.describe(bench)), 'quick': bench.quick, 'groups': groups, 'results': bench.results,
            'goals': bench.goals, 'failures': bench.failures, 'skipped': bench.skipped, 'notes': bench.notes,
            'series': bench.series, 'seconds': bench.times,
            'titles': {name: importlib.import_module(f'scenarios.{name}').TITLE for name in groups}}


def main():
    sys.modules['bench'] = sys.modules['__main__']   # The scenarios import Skip from this module.
    groups = chosen_groups(os.environ.get('QUICK') == '1')
    bench = setup()
    directory = os.environ['BENCH_RESULTS']
    for number, name in enumerate(groups, 1):
        run_group(bench, name)
        results = results_of(bench, groups[:number])   # Written after each group, so that an interrupted run keeps its results.
        with open(os.path.join(directory, 'results.json'), 'w') as file:
            json.dump(results, file, indent=1)
    with open(os.path.join(directory, 'report.md'), 'w') as file:
        file.write(report.write(results, directory))
    print(report.text(results))
    sys.exit(1 if bench.failures else 0)


if __name__ == '__main__':
    main()
