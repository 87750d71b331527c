"""The statuses of a job, read from the table from which the library is generated, because the judges of a run have no connection.

SQL needs no list: status < 'processing' means that the job waits, status > 'processing' that it has finished.
"""

import re
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "src" / "core" / "job_status.h"
PHASES = dict(re.findall(r'^ +STATUS\(\w+, "(\w+)", (\w+), ', TABLE.read_text(), re.MULTILINE))

ALL = tuple(PHASES)
WAITING = tuple(status for status in ALL if PHASES[status] == "Waiting")
FINISHED = tuple(status for status in ALL if PHASES[status] == "Finished")
UNFINISHED = tuple(status for status in ALL if PHASES[status] != "Finished")
