# Draws the plots of the report as SVG. The same results produce the same bytes. Called by report.py.

import os
import statistics

import matplotlib

matplotlib.use('svg')
matplotlib.rcParams['svg.hashsalt'] = 'jobq'
matplotlib.rcParams['font.size'] = 9
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be selected first)


def save(figure, directory, name):
    figure.tight_layout()
    figure.savefig(os.path.join(directory, name), metadata={'Date': None})
    plt.close(figure)


def medians(results, group, sync, metric='jobs_per_s'):
    cells = {}
    for entry in results['results']:
        if entry['group'] == group and entry['sync'] == sync and entry['metrics'].get(metric):
            cells.setdefault(entry['cell'], []).append(entry['metrics'][metric])
    return {cell: statistics.median(values) for cell, values in cells.items()}


def bars(results, directory, group, name, title, base):
    """Jobs per second of each cell as a multiple of one of them, with synchronous_commit off and on in two panels."""
    panels = [(sync, medians(results, group, sync)) for sync in ('off', 'on')]
    panels = [(sync, cells) for sync, cells in panels if base in cells]
    if not panels:
        return None
    figure, axes = plt.subplots(1, len(panels), figsize=(8, 0.5 + 0.4 * max(len(c) for _, c in panels)), squeeze=False)
    for axis, (sync, cells) in zip(axes[0], panels):
        names = list(cells)[::-1]
        ratios = [cells[cell] / cells[base] for cell in names]
        axis.barh(names, ratios, color=['#336791' if 'jobq' in cell else '#b0b0b0' for cell in names])
        for y, ratio in enumerate(ratios):
            axis.text(ratio, y, f' {ratio:.2f}', va='center')
        axis.set_xlim(0, max(ratios) * 1.2)
        axis.set_title(f'synchronous_commit {sync}', fontsize=9)
        axis.set_xlabel(f'times {base}')
    figure.suptitle(title, fontsize=10)
    save(figure, directory, name)
    return name, title


def lines(results, directory, series, name, title, xlabel, ylabel, logarithmic=False):
    """series: label -> [(x, y)], from a key of results['series']."""
    data = results['series'].get(series)
    if not data:
        return None
    figure, axis = plt.subplots(figsize=(8, 3.5))
    for label, points in data.items():
        axis.plot([x for x, _ in points], [y for _, y in points], label=label, marker='o' if logarithmic else None)
    if logarithmic:
        axis.set_xscale('log', base=2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.legend(fontsize=8)
    axis.set_title(title, fontsize=10)
    save(figure, directory, name)
    return name, title


# The usual alternatives from the group "brokers": 16 workers with one job each, then workers whose library fetches jobs ahead.
CHOICES = {'jobq, one call': 'jobq, one call per job (C++)', 'jobq': 'jobq, claim and complete (C++)', 'textbook': 'textbook table (C++)', 'pgmq': 'pgmq (C++)',
           "Node: jobq's client, 16 slots": 'jobq, its client (Node)', 'graphile-worker, 16 at a time': 'graphile-worker (Node)',
           'pg-boss, 16 at a time': 'pg-boss (Node)', 'Redis lists, one round trip': 'Redis, lists (C++)',
           'Redis streams, one round trip': 'Redis, streams (C++)', 'BullMQ, 16 at a time': 'BullMQ on Redis (Node)', 'RabbitMQ': 'RabbitMQ (Node)',
           "Node: jobq's client, 500 slots": 'ahead: jobq, its client, 500 (Node)', 'graphile-worker, 500 ahead': 'ahead: graphile-worker, 500 (Node)',
           'RabbitMQ, 20 ahead': 'ahead: RabbitMQ, 20 (Node)'}


def choices(results, directory, name, title):
    """Jobs per second, and bytes that the server writes to disk per job, in both classes of durability."""
    classes = {'on': 'durable: every answer is on disk', 'off': 'asynchronous commit: the last answers may be lost'}
    speeds = {sync: medians(results, 'brokers', sync) for sync in classes}
    classes = {sync: text for sync, text in classes.items() if any(cell in speeds[sync] for cell in CHOICES)}
    if not classes:
        return None
    figure, axes = plt.subplots(len(classes), 2, figsize=(11, 3.5 * len(classes)), squeeze=False, layout='constrained')
    for row, (sync, text) in zip(axes, classes.items()):
        cells = [cell for cell in CHOICES if cell in speeds[sync]][::-1]
        written = [sum(medians(results, 'brokers', sync, metric).get(cell, 0) for metric in ('enqueue_disk_per_job', 'disk_per_job', 'checkpoint_per_job'))
                   for cell in cells]
        for axis, values, unit in ((row[0], [speeds[sync][cell] for cell in cells], 'jobs per second'), (row[1], written, 'bytes written to disk per job, from its enqueue to its end')):
            axis.barh([CHOICES[cell] for cell in cells], values,
                      color=['#336791' if 'jobq' in cell else '#b0b0b0' for cell in cells])
            for y, value in enumerate(values):
                axis.text(value, y, f' {value:,.0f}', va='center', fontsize=8)
            axis.set_xlim(0, max(values) * 1.25)
            axis.set_title(f'{unit}\n{text}', fontsize=9)
            axis.axhline(sum(CHOICES[cell].startswith('ahead') for cell in cells) - 0.5, color='#808080', linewidth=0.5)
        row[1].set_yticklabels([])
    figure.suptitle(title, fontsize=10)
    save(figure, directory, name)
    return name, title


def draw(results, directory):
    """Returns {group: [(file, title)]} for the groups that have results."""
    pictures = {
        'lifecycle': bars(results, directory, 'lifecycle', 'lifecycle.svg', 'Single jobs, 16 clients', 'textbook'),
        'batches': bars(results, directory, 'batches', 'batches.svg', 'Batches of 100', 'textbook, 1 client'),
        'peers': bars(results, directory, 'peers', 'peers.svg', 'Job queues in batches', 'textbook, batches of 500, 2 clients'),
        'brokers': choices(results, directory, 'brokers.svg', 'Jobs claimed and acknowledged, 16 at a time'),
        'held': lines(results, directory, 'held', 'held.svg', 'Lifecycles per second while a transaction is held open',
                      'seconds', 'lifecycles per second'),
        'workers': lines(results, directory, 'workers', 'workers.svg', 'Many workers, relative to 16', 'workers',
                         'relative to 16 workers', logarithmic=True),
    }
    return {group: [picture] for group, picture in pictures.items() if picture}
