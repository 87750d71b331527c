# Copies the results of a run into docs/internals: the tables go between the markers of benchmark_results.md and benchmark_peers.md, and the
# plots, raw data, and input of capacity.py go to docs/internals/benchmarks. Groups that were not run keep their published results, because
# a ratio only compares cells of the same run of a group. run.sh calls: publish.py RESULTS DOCS.

import glob
import json
import os
import shutil
import sys

import report

BEGIN, END = '<!-- results: begin -->', '<!-- results: end -->'


def load(path):
    with open(path) as file:
        return json.load(file)


def merged(before, run):
    """Returns `before`, with its groups replaced by those of `run`."""
    groups = before['groups'] + [group for group in run['groups'] if group not in before['groups']]
    together = dict(run, groups=groups)
    for part in ('results', 'goals', 'failures'):
        kept = [entry for entry in before[part] if entry['group'] not in run['groups']]
        together[part] = sorted(kept + run[part], key=lambda entry: groups.index(entry['group']))
    for part in ('skipped', 'notes', 'series', 'seconds', 'titles', 'machines'):
        kept = {group: value for group, value in before[part].items() if group not in run['groups']}
        together[part] = dict(kept, **run[part])
    return together


def put(page, text):
    """Replaces what the page has between the markers."""
    with open(page) as file:
        before, found, rest = file.read().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        sys.exit(f'{page} lacks the markers {BEGIN} and {END}')
    with open(page, 'w') as file:
        file.write(f'{before}{BEGIN}\n\n{text}\n{END}{after}')


def main(results, docs):
    internals = os.path.join(docs, 'internals')
    target = os.path.join(internals, 'benchmarks')
    published = os.path.join(target, 'results.json')
    run = load(os.path.join(results, 'results.json'))
    if os.path.exists(published):
        run = merged(load(published), run)
    os.makedirs(target, exist_ok=True)
    for old in glob.glob(os.path.join(target, '*.svg')):
        os.remove(old)
    if os.path.exists(inputs := os.path.join(results, 'capacity.json')):
        shutil.copy(inputs, target)
    own, others = report.pages(run, target)
    with open(published, 'w') as file:
        json.dump(run, file, indent=1)
        file.write('\n')
    put(os.path.join(internals, 'benchmark_results.md'), own)
    put(os.path.join(internals, 'benchmark_peers.md'), others)


if __name__ == '__main__':
    main(*sys.argv[1:3])
