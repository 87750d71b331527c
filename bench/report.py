# Converts results to tables: as text for the terminal, and as Markdown that publish.py copies into docs/internals. A value is
# the median of the rounds. The spread is the jobs per second of the slowest and the fastest round.

import os
import statistics

import plots

COLUMNS = [  # metric, heading, format
    ('jobs_per_s', 'jobs/s', '{:,.0f}'), ('spread', 'spread', '{}'), ('ratio', 'ratio', '{:.2f}'),
    ('wal_per_job', 'WAL bytes/job', '{:,.0f}'), ('fpi', 'page images', '{:,.0f}'),
    ('cpu_us_per_job', 'server CPU us/job', '{:,.1f}'), ('client_cpu_us_per_job', 'client CPU us/job', '{:,.1f}'),
    ('faults_per_job', 'page faults/job', '{:,.2f}'),
    ('enqueue_disk_per_job', 'enqueue, disk bytes/job', '{:,.0f}'), ('disk_per_job', 'disk bytes/job', '{:,.0f}'), ('checkpoint_per_job', 'pages at a checkpoint, bytes/job', '{:,.0f}'),
    ('p50_ms', 'p50 ms', '{:.2f}'), ('p99_ms', 'p99 ms', '{:.2f}'), ('dead_tuples', 'dead tuples', '{:,.0f}'),
    ('size_mb', 'size MB', '{:,.0f}'),
    ('entries_a_job', 'index entries/job', '{:,.0f}'), ('late_p99_ms', 'late, p99 ms', '{:,.0f}'),
    ('waiting_bytes', 'waiting, bytes/job', '{:,.0f}'), ('completed_bytes', 'completed, bytes/job', '{:,.0f}'),
    ('wal_after_checkpoint', 'WAL after a checkpoint', '{:,.0f}'), ('enqueued_per_s', 'enqueued/s', '{:,.0f}'), ('hot_completions', 'HOT %', '{:.1f}'), ('value', 'measured', '{:,.3g}'),
    ('answered_enqueues', 'answered enqueues', '{:,.0f}'), ('answered_acknowledgements', 'answered acknowledgements', '{:,.0f}'),
    ('lost', 'lost', '{:,.0f}'), ('doubled', 'doubled', '{:,.0f}'),
    ('ms', 'ms per call', '{:,.2f}'), ('router_us', 'router CPU us', '{:,.1f}'), ('shard_us', 'shards CPU us', '{:,.1f}'),
    ('woken_ms', 'ms from the enqueue to the end', '{:,.1f}'), ('idle_us', 'CPU us per second without jobs', '{:,.0f}'),
]

# The headings of the two sections of a group that also measures servers other than PostgreSQL.
CLASSES = {'brokers': {'on': 'Durable (each change is on disk before the server confirms it)', 'off': 'Asynchronous (a crash may lose the last changes)'}}


def section(group, sync, form):
    return CLASSES.get(group, {}).get(sync) or form.format(sync)


def rounds_of(rows):
    rounds = max(row['rounds'] for row in rows)
    return f'medians of {rounds} rounds' if rounds > 1 else 'one round'


def summary(results, group):
    """Returns [(sync, [row])]. A row has the medians of a cell. ratio is relative to the textbook cell of the same kind."""
    sections = []
    for sync in ('off', 'on'):
        cells = {}
        for entry in results['results']:
            if entry['group'] == group and entry['sync'] == sync:
                cells.setdefault(entry['cell'], []).append(entry['metrics'])
        rows = []
        for cell, rounds in cells.items():
            row = {'cell': cell, 'rounds': len(rounds)}
            for metric in {name for metrics in rounds for name in metrics}:
                values = [m[metric] for m in rounds if isinstance(m.get(metric), (int, float))]
                if values:
                    row[metric] = statistics.median(values)
            speeds = [m['jobs_per_s'] for m in rounds if m.get('jobs_per_s')]
            if len(speeds) > 1:
                row['spread'] = f'{min(speeds):,.0f} .. {max(speeds):,.0f}'
            rows.append(row)
        add_ratios(rows)
        if rows:
            sections.append((sync, rows))
    return sections


def base_of(cell, speeds):
    """The textbook cell with the same suffix ("textbook, 2 clients" for "jobq, 2 clients"). Otherwise, the batches of the
    textbook for a batch cell, if there are any, and its single jobs for other cells."""
    _, _, suffix = cell.partition(', ')
    if f'textbook, {suffix}' in speeds:
        return speeds[f'textbook, {suffix}']
    if 'SELECT 1' in cell:
        return None
    batches = next((name for name in speeds if name.startswith('textbook, batches')), None)
    single = 'textbook' if 'textbook' in speeds else batches
    return speeds.get(batches if 'batches' in cell else single)


def add_ratios(rows):
    speeds = {row['cell']: row.get('jobs_per_s') for row in rows}
    for row in rows:
        base = base_of(row['cell'], speeds)
        if base and row.get('jobs_per_s'):
            row['ratio'] = row['jobs_per_s'] / base


def grid(rows):
    """Returns headings and text lines for the columns that at least one row has."""
    used = [column for column in COLUMNS if any(column[0] in row for row in rows)]
    head = [''] + [column[1] for column in used]
    lines = [[row['cell']] + [column[2].format(row[column[0]]) if row.get(column[0]) is not None else ''
                              for column in used] for row in rows]
    return head, lines


def plain(head, lines):
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    out = []
    for line in [head] + lines:
        out.append('  ' + line[0].ljust(widths[0]) + ''.join('  ' + text.rjust(width)
                                                           for text, width in zip(line[1:], widths[1:])))
    return '\n'.join(out)


def markdown(head, lines):
    out = ['| ' + ' | '.join(head) + ' |', '|---|' + '--:|' * (len(head) - 1)]
    out += ['| ' + ' | '.join(line) + ' |' for line in lines]
    return '\n'.join(out)


def shown(goal):
    if goal['measured'] is None:
        return 'not measured'
    value = goal['measured']
    digits = f'{value:.2f}' if abs(value) < 100 else f'{value:,.0f}'
    return f"{digits} {goal['unit']}".strip() + (f" ({goal['note']})" if goal['note'] else '')


def goal_lines(results):
    verdict = {True: 'met', False: 'NOT MET', None: '-'}
    return [[goal['goal'], f"{goal['relation']} {goal['target']:g} {goal['unit']}".strip(), shown(goal),
             verdict[goal['met']] + (', open' if goal.get('open') else '')] for goal in results['goals']]


GOAL_HEAD = ['goal', 'target', 'measured', '']


def text(results):
    out = ['']
    for group in results['groups']:
        for sync, rows in summary(results, group):
            out += [f"{results['titles'][group]} ({section(group, sync, 'synchronous_commit {}')})", plain(*grid(rows)), '']
        out += [f'  {note}' for note in results['notes'].get(group, [])] + ['']
    if results['goals']:
        out += ['Goals', plain(GOAL_HEAD, goal_lines(results)), '']
    out += [f'skipped: {name}: {reason}' for name, reason in results['skipped'].items()]
    out += [f"FAILED: {failure['group']}: {failure['failure']}" for failure in results['failures']]
    if not results['failures']:
        out.append('The audit found no lost and no duplicate job.')
    return '\n'.join(out)


def machine_lines(results):
    """Returns each property of the machine and the versions, with the groups of each value if the groups differ."""
    machines = {group: dict(machine, settings=', '.join(f'`{name} = {value}`' for name, value in machine['settings'].items()))
                for group, machine in results['machines'].items()}
    lines = []
    for name in dict.fromkeys(name for machine in machines.values() for name in machine):
        groups = {}
        for group, machine in machines.items():
            groups.setdefault(machine.get(name), []).append(group)
        values = [value for value in groups if value]
        if len(groups) > 1:
            values = [f"{value}: {', '.join(groups[value])}" for value in values]
        if values:
            lines.append([name, '; '.join(map(str, values))])
    return lines


# The groups that compare jobq with other queues, or run it through a router. Their results have a page of their own.
OTHERS = ('peers', 'clients', 'brokers', 'router')


def conditions(results):
    """The sections about the machine and the goals."""
    out = ['## The machine', '', '| | |', '|---|---|']
    out += [f'| {name} | {value} |' for name, value in machine_lines(results)]
    return out + ['', '## Goals', '', markdown(GOAL_HEAD, goal_lines(results)), '']


def group_lines(results, group, pictures):
    sections = summary(results, group)
    if not sections and group not in results['skipped']:
        return []
    out = [f"## {results['titles'][group]}", '']
    if group in results['skipped']:
        out += [f"Skipped: {results['skipped'][group]}", '']
    for sync, rows in sections:
        out += [f'{section(group, sync, "`synchronous_commit = {}`")}, {rounds_of(rows)}:', '', markdown(*grid(rows)), '']
    out += [f'{note}\n' for note in results['notes'].get(group, [])]
    return out + [f'![{title}](benchmarks/{name})\n' for name, title in pictures]


def audit(results):
    if results['failures']:
        return ['## Failures', ''] + [f"* {failure['group']}: {failure['failure']}" for failure in results['failures']] + ['']
    return ['The audit of every cell found no lost and no duplicate job.', '']


def pages(results, directory):
    """Draws the plots into the directory; returns the results of jobq itself, and those of OTHERS."""
    pictures = plots.draw(results, directory)
    texts = {group: group_lines(results, group, pictures.get(group, [])) for group in results['groups']}
    own = [line for group in texts if group not in OTHERS for line in texts[group]]
    others = [line for group in texts if group in OTHERS for line in texts[group]]
    return '\n'.join(conditions(results) + own + audit(results)), '\n'.join(others)


def write(results, directory):
    """Draws the plots into the directory; returns all results as one page."""
    return '\n'.join(pages(results, directory))
