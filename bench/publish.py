# Puts a report between the markers of docs/benchmarks.md and its plots into docs/benchmarks. Called by run.sh after a full
# run: publish.py RESULTS DOCS.

import glob
import os
import shutil
import sys

BEGIN, END = '<!-- results: begin -->', '<!-- results: end -->'


def main(results, docs):
    page = os.path.join(docs, 'benchmarks.md')
    with open(page) as file:
        text = file.read()
    with open(os.path.join(results, 'report.md')) as file:
        report = file.read()
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        sys.exit(f'{page} lacks the markers {BEGIN} and {END}')
    with open(page, 'w') as file:
        file.write(f'{before}{BEGIN}\n\n{report}\n{END}{after}')
    target = os.path.join(docs, 'benchmarks')
    os.makedirs(target, exist_ok=True)
    for plot in glob.glob(os.path.join(results, '*.svg')):
        shutil.copy(plot, target)


if __name__ == '__main__':
    main(*sys.argv[1:3])
