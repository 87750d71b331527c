# Puts a run into docs/benchmarks.md: its report between the markers, its plots, raw figures and what capacity.py reckons with into docs/benchmarks. What was
# published before stays for the groups that the run left out: ratios are always those of one run of a group. Called by
# run.sh: publish.py RESULTS DOCS.

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
    """`before` with the groups of `run` in the place of its own."""
    groups = before['groups'] + [group for group in run['groups'] if group not in before['groups']]
    together = dict(run, groups=groups)
    for part in ('results', 'goals', 'failures'):
        kept = [entry for entry in before[part] if entry['group'] not in run['groups']]
        together[part] = sorted(kept + run[part], key=lambda entry: groups.index(entry['group']))
    for part in ('skipped', 'notes', 'series', 'seconds', 'titles', 'machines'):
        kept = {group: value for group, value in before[part].items() if group not in run['groups']}
        together[part] = dict(kept, **run[part])
    return together


def main(results, docs):
    page, target = os.path.join(docs, 'benchmarks.md'), os.path.join(docs, 'benchmarks')
    published = os.path.join(target, 'results.json')
    run = load(os.path.join(results, 'results.json'))
    if os.path.exists(published):
        run = merged(load(published), run)
    os.makedirs(target, exist_ok=True)
    for old in glob.glob(os.path.join(target, '*.svg')):
        os.remove(old)
    if os.path.exists(inputs := os.path.join(results, 'capacity.json')):
        shutil.copy(inputs, target)
    text = report.write(run, target)
    with open(published, 'w') as file:
        json.dump(run, file, indent=1)
        file.write('\n')
    with open(page) as file:
        before, found, rest = file.read().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        sys.exit(f'{page} lacks the markers {BEGIN} and {END}')
    with open(page, 'w') as file:
        file.write(f'{before}{BEGIN}\n\n{text}\n{END}{after}')


if __name__ == '__main__':
    main(*sys.argv[1:3])
