"""The statuses of a job, read from the table that the library is made from: who judges a run has no connection to ask.

In SQL nobody needs a list: status < 'processing' waits, status > 'processing' has finished.
"""

import re
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "src" / "core" / "job_status.h"
PHASES = dict(re.findall(r'^ +STATUS\(\w+, "(\w+)", (\w+), ', TABLE.read_text(), re.MULTILINE))

ALL = tuple(PHASES)
WAITING = tuple(status for status in ALL if PHASES[status] == "Waiting")
FINISHED = tuple(status for status in ALL if PHASES[status] == "Finished")
UNFINISHED = tuple(status for status in ALL if PHASES[status] != "Finished")
