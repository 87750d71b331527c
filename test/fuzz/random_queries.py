"""Random queries by sqlsmith, as a role that has every kind of grant but owns nothing, while the background worker runs.

JOBQ_FUZZ_SECONDS=n is the duration (0: not at all); JOBQ_FUZZ_SEED is the seed. The run is judged by the server's log, and by
the rows, indexes, and duties of jobq afterward.
"""

import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter

import canary
import invariants
import roles
import stock
from server_log import ServerLog
from support import Results, connect, wait_until

SECONDS = 120
BOUND = "5s"            # limit for one query; some of the queries join everything with everything
# Internal errors of the server itself, which its functions raise for arguments that they never get otherwise. They are recognized
# by their message or by the source file that raises them: the parser and the types.
SERVERS = re.compile(r"(pg_|brin_|gin_|gist|spg|ts_|to_tsvector|cache lookup failed for|could not determine|unrecognized|large object"
                     r"|invalid (attribute|relation|type|page)|bogus|missing|function .* does not exist)", re.IGNORECASE)
PARSER_AND_TYPES = re.compile(r"LOCATION:  \w+, (parse_\w+|array\w*|date\w*|float|formatting|int8?|json\w*|multirange\w*|numeric|range\w*"
                              r"|regexp|regproc|rowtypes|ruleutils|timestamp|tid|ts\w*|varbit|varchar|varlena|xid|xml)\.c:")


def attack(database, seed, seconds):
    """The output of sqlsmith. It may end early if it believes that the server has crashed."""
    env = dict(os.environ, PGOPTIONS=f"-c statement_timeout={BOUND} -c lock_timeout=1s -c client_min_messages=error"
               " -c work_mem=4MB -c max_parallel_workers_per_gather=0")
    target = f"dbname={database} user='{roles.user('everything')}'"
    process = subprocess.Popen(["sqlsmith", f"--target={target}", f"--seed={seed}", "--exclude-catalog", "--max-queries=100000000"],
                               env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        _, said = process.communicate()
    return said


def internal_errors(log):
    """Internal errors whose message or context mentions jobq, and all crashes. Other errors are counted."""
    lines = log.lines()
    found, others = [], Counter()
    for number, line in enumerate(lines):
        match = re.search(r" XX\d{3} (?:ERROR|FATAL|PANIC):  (?:XX\d{3}: )?(.*)", line)
        if not match:
            continue
        # The lines that belong to the message: DETAIL, HINT, CONTEXT, LOCATION.
        more = " ".join(following for following in lines[number + 1:number + 6]
                        if re.search(r" (CONTEXT|LOCATION):  ", following) and following[:23] == line[:23])
        if "jobq" in match.group(1) + more or ".cpp:" in more or not (SERVERS.search(match.group(1)) or PARSER_AND_TYPES.search(more)):
            found.append(line + more)
        else:
            others[match.group(1)[:60]] += 1
    found += [line for line in log.faults(duties=False) if not re.search(r" XX\d{3} ", line)]
    return found, others


def main():
    results = Results("random queries")
    seconds = int(os.environ.get("JOBQ_FUZZ_SECONDS") or 0)
    seed = int(os.environ.get("JOBQ_FUZZ_SEED") or random.SystemRandom().randrange(10**6))
    if seconds == 0 or shutil.which("sqlsmith") is None:
        results.check(seconds == 0, "left out; scripts/setup.sh fuzz installs sqlsmith")
        results.finish()
    log = ServerLog()
    with roles.database("random", ("everything",)) as name:
        with connect(name) as conn:
            stock.set_up(conn)
            for role in roles.GRANTED:
                conn.execute(f'GRANT "{roles.user(role)}" TO "{roles.user("everything")}"')
            conn.execute(f"ALTER DATABASE {name} SET track_functions = 'all'")
            conn.execute(f"ALTER DATABASE {name} SET log_error_verbosity = 'verbose'")
            conn.execute("SELECT pg_stat_reset()")
        began = time.monotonic()
        said = attack(name, seed, seconds)
        results.note(f"seed {seed}, {time.monotonic() - began:.0f} s; {said.strip()[-300:] if said else 'said nothing'}")
        with connect(name) as conn:
            conn.execute("SET timezone = 'UTC'")
            sent = conn.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").fetchone()[0]
            called = conn.execute("SELECT count(*), coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname LIKE 'jobq%'"
                                  " OR schemaname = 'jobq'").fetchone()
            results.note(f"{sent} transactions; {called[0]} functions of jobq were reached, {called[1]} times")
            results.check(sent > 10 * seconds, "it has sent queries", sent)
            wait_until(lambda: conn.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s",
                                            (roles.user("everything"),)).fetchone()[0] == 0, 60)
            found, others = internal_errors(log)
            results.note(f"internal errors of the server's own functions: {dict(others.most_common(6))}")
            results.check(not found, "no crash, no internal error of jobq", found[:5])
            invariants.check(results, conn)
            invariants.check_storage(results, conn)
            birds = canary.Canaries(conn).release()
            results.check(not birds.wait(), "all duties are done", birds.missing())
            results.check(birds.claimable(), "jobs that they made claimable can be claimed")
    results.finish()


if __name__ == "__main__":
    main()
