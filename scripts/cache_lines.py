# For scripts/profile.sh with CACHE=1: measures how many cache lines of 64 bytes a call loads into the caches of its core, as
# simulated by callgrind. Measures repeated calls in a session that has the core for itself, and calls after other processes have
# used the core, which are simulated by a statement that writes more memory than the caches hold.
#
#   cache_lines.py PATTERN     measures the kinds of calls whose names match the regular expression
#   cache_lines.py --caches    prints options for callgrind: the sizes of the caches that belong to one core only

import dataclasses
import re
import sys

from profile_file import Profile

L1_BYTES, LAST_BYTES, LINE = 32 << 10, 1 << 20, 64
CALLS = 200
# Written each time; three times the size of the last cache.
OTHERS = f"SELECT octet_length(repeat(repeat('x', 1024), {3 * LAST_BYTES // 1024} + (random() * 0)::integer));\n"


def caches():
    return f'--I1={L1_BYTES},8,{LINE} --D1={L1_BYTES},8,{LINE} --LL={LAST_BYTES},8,{LINE}'


def kinds():
    from contenders import TEXTBOOK
    from profile import KINDS, Kind
    names = ('SELECT 1', 'UPDATE of one row by its key', 'empty claim', 'claim, complete', 'complete_and_claim')
    table = TEXTBOOK.schema + ("INSERT INTO textbook_jobs (queue, payload) SELECT 'bench', jsonb_build_object('n', n) "
                               'FROM generate_series(1, 2600) n; VACUUM ANALYZE textbook_jobs')
    return [kind for kind in KINDS if kind.name in names] + [
        Kind('the textbook: claim, complete', TEXTBOOK.lifecycle(), jobs=0,
             setup='DROP TABLE IF EXISTS textbook_jobs; ' + table)]


def per_call(kind):
    """Returns for one call: the instructions, the cache lines loaded into the first caches, and those loaded into the last cache for
    code and for data that is read, in total and by jobq."""
    from profile import run
    profile = Profile(run(kind, warm=CALLS, calls=CALLS)[0])

    def cost(*events, of=''):
        numbers = [profile.events.index(event) for event in events]
        return sum(costs[number] for (binary, _, _), costs in profile.own.items() if binary.endswith(of)
                   for number in numbers if number < len(costs)) / CALLS

    return [cost('Ir'), cost('I1mr', 'D1mr', 'D1mw'), cost('ILmr'), cost('DLmr'), cost('ILmr', 'DLmr', of='jobq.so')]


def main(pattern):
    if pattern == '--caches':
        print(caches())
        return
    from profile import sql
    sql('CREATE EXTENSION IF NOT EXISTS jobq')
    found = [kind for kind in kinds() if re.search(pattern, kind.name)]
    rows = []
    for kind in [kind for kind in kinds() if kind.name == 'SELECT 1'] + [kind for kind in found if kind.name != 'SELECT 1']:
        print(kind.name, '...', file=sys.stderr, flush=True)
        rows.append((kind.name, per_call(kind), per_call(dataclasses.replace(kind, script=OTHERS + kind.script))))
    base = rows[0][2]
    print('\n| | instructions | lines into the first caches | into the last one, alone | after others, beyond SELECT 1: code | data read | of these jobq |')
    print('|---|--:|--:|--:|--:|--:|--:|')
    for name, (instructions, first, code, data, _), after in rows:
        beyond = [cost - of_base for cost, of_base in zip(after, base)][2:]
        print(f'| {name} | {instructions:,.0f} | {first:,.0f} | {code + data:,.0f} | ' + ' | '.join(f'{cost:,.0f}' for cost in beyond) + ' |')


if __name__ == '__main__':
    main(sys.argv[1])
