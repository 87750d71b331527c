# Many workers: 64 and 256 clients compared with 16, divided by the same ratio of a prepared SELECT 1, in each round.

import statistics

from cells import interleave, run_cell
from contenders import JOBQ, SMALL_PAGES, TEXTBOOK
from load import Running
from statistic import median_and_interval

TITLE = 'Many workers, single jobs'
COUNTS = (16, 64, 256)
# Seconds until a session has read the catalogs and touched the shared memory that it uses. With more sessions, each of them gets
# fewer jobs. SELECT 1 needs no warm-up.
WARM_UP = {16: 5, 64: 10, 256: 25}
SELECT_WARM_UP = 5


def run(bench):
    cells = {}
    for clients in COUNTS:
        warmup = WARM_UP[clients]
        seconds = warmup + bench.scale(6, 3)

        def select(contender=JOBQ, clients=clients, seconds=bench.scale(6, 3)):
            running = Running('SELECT 1;\n', clients, seconds=seconds + SELECT_WARM_UP, host=contender.host)
            running.warm_up(bench.conn_of(contender), SELECT_WARM_UP)
            load = running.finish()
            return {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99)}

        def jobs(contender, clients=clients, seconds=seconds, warmup=warmup):
            return lambda: run_cell(bench, contender, contender.lifecycle(), clients, 'off', seconds, 12_000, warmup=warmup)
        cells[f'prepared SELECT 1, {clients} clients'] = select
        cells[f'jobq, {clients} clients'] = jobs(JOBQ)
        if not bench.quick:
            cells[f'textbook, {clients} clients'] = jobs(TEXTBOOK)
            if SMALL_PAGES:
                cells[f'pages of 4 kB: prepared SELECT 1, {clients} clients'] = lambda select=select: select(SMALL_PAGES)
                cells[f'pages of 4 kB: jobq, {clients} clients'] = jobs(SMALL_PAGES)
    interleave(bench, 'workers', cells, bench.scale(4, 2), 'off')

    def loss(name, clients):
        return bench.ratio('workers', f'{name}, {clients} clients', f'{name}, 16 clients', 'off')

    for pages in ('', 'pages of 4 kB: ') if SMALL_PAGES and not bench.quick else ('',):
        for clients, target in ((64, 0.95), (256, 0.9)):
            own, floor = (bench.ratios('workers', f'{pages}{name}, {clients} clients', f'{pages}{name}, 16 clients', 'off')
                          for name in ('jobq', 'prepared SELECT 1'))
            kept = [mine / its for mine, its in zip(own, floor)]
            ratio, interval = median_and_interval(kept, 'rounds')
            bench.goal('workers', f'{pages}{clients} workers relative to 16, divided by the same ratio of SELECT 1', ratio, '>=', target, interval=interval,
                       note=f'jobq {statistics.median(own):.2f}, SELECT 1 {statistics.median(floor):.2f}')
    names = ('prepared SELECT 1', 'jobq', 'textbook', 'pages of 4 kB: prepared SELECT 1', 'pages of 4 kB: jobq')
    bench.series['workers'] = {name: [[clients, loss(name, clients)] for clients in COUNTS] for name in names if loss(name, 16)}
