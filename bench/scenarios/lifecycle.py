# Single jobs with 16 clients: claim, then complete, in two calls and in one call. Compared with the two statements of the
# textbook.

from cells import interleave, run_cell
from contenders import BASE, JOBQ, TEXTBOOK, TUNED

TITLE = 'Single jobs: claim one, complete it, 16 clients'
CLIENTS = 16


def run(bench):
    seconds = bench.scale(6, 3)
    for sync in ('off', 'on'):
        def cell(contender, script, sync=sync, **options):
            return lambda: run_cell(bench, contender, script, CLIENTS, sync, seconds, guess=12_000, **options)
        cells = {
            'textbook': cell(TEXTBOOK, TEXTBOOK.lifecycle()),
            'textbook, both in one statement': cell(TEXTBOOK, TEXTBOOK.fused(), held=CLIENTS, variables=TEXTBOOK.fused_variables),
            'tuned textbook': cell(TUNED, TUNED.lifecycle()),
            'jobq': cell(JOBQ, JOBQ.lifecycle()),
            'jobq, complete_and_claim': cell(JOBQ, JOBQ.fused(), held=CLIENTS, variables=JOBQ.fused_variables),
        }
        if bench.quick:
            del cells['tuned textbook'], cells['textbook, both in one statement']
        if BASE:
            cells['jobq before'] = cell(BASE, BASE.lifecycle())
            cells['jobq before, complete_and_claim'] = cell(BASE, BASE.fused(), held=CLIENTS,
                                                            variables=BASE.fused_variables)
        interleave(bench, 'lifecycle', cells, bench.scale(7, 3), sync)
    for sync, single, fused in (('off', 1.8, 2.3), ('on', 1.5, 1.8)):
        for what, cell, least in (('claim, then complete', 'jobq', single), ('jobq_complete_and_claim', 'jobq, complete_and_claim', fused)):
            bench.goal_of_pairs('lifecycle', f'{what}, 16 clients, synchronous_commit {sync}, relative to the textbook', cell, 'textbook', sync, '>=', least)
    bench.note('lifecycle', 'p50 and p99 are the times of a whole lifecycle, which is one claim and one completion, in two calls or in one '
               'call. The goals compare jobq with the textbook that uses two statements. The tuned textbook deletes finished '
               'jobs, and the others keep them.')
