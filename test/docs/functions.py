"""Checks that the pages of the reference list every public function, with the roles that jobq_grant lets call it, and have a section for each
function that begins with its signature, which examples.py compares with the catalog. Checks that it lists every reason of jobq_explain.

functions.py        needs the server that examples.py needs
"""
import glob
import os
import re
import sys

import examples

PAGES = "docs/reference"
KINDS = ("producers", "workers", "operators", "monitors")
CATALOGUE = """
\\pset tuples_only on
\\pset format unaligned
SELECT p.proname, string_agg(k, ', ' ORDER BY n) FILTER (WHERE has_function_privilege('docs ' || k, p.oid, 'EXECUTE'))
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid, unnest('{%s}'::text[]) WITH ORDINALITY u(k, n)
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq') AND p.pronamespace <> 'jobq'::regnamespace
GROUP BY p.proname;
""" % ",".join(KINDS)


def callers(page):
    """By function: the roles that the table names."""
    found, group = {}, ""
    for line in page.splitlines():
        if heading := re.match(r"\| \*\*(.+)\*\* \|", line):
            group = {"all profiles": ", ".join(KINDS), "the owner of the extension": ""}.get(heading[1], heading[1])
        elif row := re.match(r"\| \[`(jobq_\w+)`\]\(\w+\.md#\1\) \|.*\|([a-z, ]*)\|$", line):
            found[row[1]] = ", ".join(filter(None, (group, row[2].strip())))
    return found


def signed(page):
    return re.findall(r"^## (jobq_\w+)\n+```\n(?:CALL )?\1\(", page, re.MULTILINE)


def faults(page, catalogue):
    """The differences between the page and the catalog, which is passed in the form of the table."""
    table, sections = callers(page), signed(page)
    for name in sorted(catalogue.keys() | table.keys() | set(sections)):
        if name not in catalogue:
            yield f"{name} is not a function"
        elif name not in table:
            yield f"{name} is not in the table"
        elif table[name] != catalogue[name]:
            yield f"{name} is for {catalogue[name] or 'nobody'}, the table says: {table[name] or 'nobody'}"
        elif sections.count(name) != 1:
            yield f"{name} has {sections.count(name)} sections that begin with its signature"


def reason_faults(page, header):
    """Compares the reasons of jobq_explain and jobq_explain_queue in the page with the list in the header."""
    sections = page[page.index("\n## jobq_explain\n"):]
    tables = re.findall(r"^\| reason \| \|\n\|---\|---\|\n((?:\|.*\n)+)", sections, re.MULTILINE)
    described = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for table in tables for line in table.splitlines())))
    known = set(re.findall(r'REASON\(\w+, "(\w+)"\)', header))
    for name in sorted(known ^ described):
        yield f"the reason {name} is not described" if name in known else f"{name} is not a reason"


def main():
    examples.prepare()
    examples.reset()
    session = examples.Session("docs")
    said = session.ask("CREATE EXTENSION jobq;" + "".join(
        f'CREATE ROLE "docs {kind}"; DO $$ BEGIN PERFORM jobq_grant(\'docs {kind}\', \'{kind[:-1]}\'); END $$;' for kind in KINDS))
    rows = session.ask(CATALOGUE).splitlines()
    session.end()
    examples.admin("DROP DATABASE docs WITH (FORCE)")
    catalogue = dict(line.split("|") for line in rows)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    page = ""
    for name in sorted(glob.glob(os.path.join(root, PAGES, "*.md"))):
        with open(name, encoding="utf-8") as file:
            page += file.read()
    with open(os.path.join(root, "src/admin/reasons.h"), encoding="utf-8") as file:
        found = [*faults(page, catalogue), *reason_faults(page, file.read())]
    if said or not catalogue:
        found.append(f"no catalog to compare with: {said}")
    for fault in found:
        print(f"not ok - {PAGES}: {fault}")
    print(f"{len(catalogue)} passed, {len(found)} failed")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
