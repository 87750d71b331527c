#!/usr/bin/python3
"""Compares the table in router/README.md with router/sql/router/routes. With --write, generates the table again."""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PAGE = os.path.join(ROOT, "router/README.md")
ROUTES = os.path.join(ROOT, "router/sql/router/routes")
SAYS = {
    "own": "to the shards of the queue and keys, as described above",
    "id": "to the shard whose number the id contains",
    "ids": "to the shards of the ids; results in the order of the call",
    "any": "to any shard",
    "queue": "to each shard in turn",
    "queue sum": "to each shard in turn, until the requested number of jobs has been changed; returns the sum",
    "all rows": "to all shards; returns the rows of all shards",
    "all sum": "to all shards; returns the sum",
    "all or": "to all shards; returns true if one shard returns true",
    "all first": "to all shards; returns the result of the shard that has the schedule",
    "all void": "to all shards",
    "all greatest": "to all shards; returns the latest result",
}
BEGIN, END = "<!-- routes -->\n", "<!-- end of routes -->\n"


def table():
    ways = {}
    for line in open(ROUTES):
        if line.startswith("#") or not line.strip():
            continue
        name, way, rest = (line.strip().split(None, 2) + [""])[:3]
        if way == "refused":
            says = f"rejected (0A000): {rest}"
        else:
            says = SAYS.get(f"{way} {rest.split()[0]}" if rest else way) or SAYS[way]
        ways.setdefault(says, []).append(f"`{name}`")
    return "| calls | destination |\n|---|---|\n" + "".join(f"| {', '.join(names)} | {says} |\n" for says, names in ways.items())


def main():
    text = open(PAGE).read()
    wanted = re.sub(f"{BEGIN}.*?{END}", lambda _: BEGIN + "\n" + table() + "\n" + END, text, flags=re.S)
    if "--write" in sys.argv:
        open(PAGE, "w").write(wanted)
    elif text != wanted or BEGIN not in text:
        print("not ok router/README.md: the table is not that of router/sql/router/routes: router/test/router/routes.py --write")
        print("0 passed, 1 failed")
        return 1
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
