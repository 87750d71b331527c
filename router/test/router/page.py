#!/usr/bin/python3
"""Runs the examples of router/README.md and compares the output: a statement after a prompt `NAME=>` runs in the database NAME. --write updates the page."""

import os
import re
import subprocess
import sys

from cluster import ROUTER, SERVERS, connection, host, make_database

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../README.md")


def shown(database, statement):
    """The output of psql without the row count; nothing if the statement returns nothing."""
    server = SERVERS[0] if database == ROUTER else SERVERS[int(database[-1]) - 1]
    for number in (1, 2):
        statement = re.sub(rf"'host=\S+ dbname=shard{number}'", f"'{connection(number)}'", statement)
    came = subprocess.run(["psql", "-Xq", "-h", host(server), "-p", "5432", "-U", "postgres", "-d", database],
                          input=statement, capture_output=True, text=True, env=dict(os.environ, PGOPTIONS="-c client_min_messages=warning"))
    lines = [line for line in (came.stdout + came.stderr).split("\n") if not re.fullmatch(r"\(\d+ rows?\)", line)]
    while lines and not lines[-1].strip():
        lines.pop()
    # A row of a void function only.
    return [] if len(lines) == 2 and set(lines[1]) <= {"-", "+"} else lines


def main():
    for number in (1, 2):
        make_database(SERVERS[number - 1], f"shard{number}")
    make_database(SERVERS[0], ROUTER)
    text = open(PAGE).read()

    def block(match):
        out = []
        for line in match[1].rstrip("\n").split("\n"):
            prompt = re.match(r"(\w+)=> (.*)", line)
            if prompt:
                out += [line, *shown(*prompt.groups())]
        return "```\n" + "\n".join(out) + "\n```\n"

    found = re.sub(r"^```\n(\w+=> .*?)^```\n", block, text, flags=re.S | re.M)
    if "--write" in sys.argv:
        open(PAGE, "w").write(found)
    elif found != text:
        theirs, ours = text.split("\n"), found.split("\n")
        different = next(n for n, (one, other) in enumerate(zip(theirs, ours)) if one != other)
        print("not ok router/README.md: the output differs:", *ours[different - 1:different + 10], sep="\n")
        print("0 passed, 1 failed")
        return 1
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
