# An idle worker in its own process, for the latency of wake-ups: waits with jobq_wait or LISTEN, claims, records the time, and
# completes. scenarios/wake.py calls it with MODE JOBS. Prints "job-id microseconds-since-1970" for each job.

import sys
import time

import psycopg


def main(mode, jobs):
    conn = psycopg.connect(autocommit=True, options='-c synchronous_commit=off')
    heard = []
    if mode == 'listen':
        # A notification that arrives during another command is passed only to the handler.
        conn.add_notify_handler(heard.append)
        conn.execute('LISTEN jobq')
    claimed = 0
    print('ready', flush=True)
    while claimed < jobs:
        if mode == 'wait':
            conn.execute("CALL jobq_wait('wake', '10 s')")
        elif not heard:
            # One notification is enough, because the loop below claims all remaining jobs.
            next(conn.notifies())
        heard.clear()
        while True:
            row = conn.execute("SELECT id, lease FROM jobq_claim('wake', 'waiter')").fetchone()
            if row is None:
                break
            print(row[0], time.time_ns() // 1000, flush=True)
            claimed += 1
            conn.execute('SELECT jobq_complete(%s, %s)', row)


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]))
