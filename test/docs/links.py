"""Checks that every link between the files of the project, including its anchor, has a target, that every file of docs/ that is mentioned
exists, and so does every target of make. A page that begins with a list of its sections must list all of them, in order. A page of docs/ has
at most 600 lines, and is in docs/README.md and in docs/site.yml.

links.py        checks the checkout that contains it
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("src", "test", "scripts", "examples", "bench", "sql", "clients", "router")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LONGEST = 600          # lines of a page
LINK = re.compile(r"\]\(([^)\s]+)\)")
GOAL = re.compile(r"make ([a-z]+(?:-[a-z]+)*)\b")
OF_PGXS = {"install", "uninstall", "installcheck", "clean"}
LIST_OF_SECTIONS = re.compile(r"^\[[^\]]+\]\(#[^)]*\)(?:\s+·\s+\[[^\]]+\]\(#[^)]*\))+", re.MULTILINE)
NAMED = re.compile(r"(?<![\w/])docs/[\w/]+\.md")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def files(suffixes, *directories):
    for directory in directories:
        for path, inner, names in os.walk(os.path.join(ROOT, directory)):
            inner[:] = [name for name in inner if name not in ("node_modules", "tmp_check", "results")]
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(path, name), ROOT)


def without_fences(text):
    return FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def slug_of(heading):
    return re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


def anchors(path):
    """The anchors of the headings, as GitHub generates them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", without_fences(read(path)), re.MULTILINE):
        slug = slug_of(heading)
        count = sum(1 for other in found if other == slug or re.fullmatch(re.escape(slug) + r"-\d+", other))
        found.add(f"{slug}-{count}" if count else slug)
    return found


def sections_left_out(page):
    """The listed sections; None if the page does not begin with a list of its sections."""
    text = without_fences(read(page))
    listed = LIST_OF_SECTIONS.search(text.split("\n## ")[0])
    if not listed:
        return None
    names = [slug_of(heading) for heading in re.findall(r"^## +(.*?) *$", text, re.MULTILINE)]
    links = re.findall(r"\(#([^)]*)\)", listed[0])
    return [name for name in names if name not in links] or ["their order"] * (names != links)


def misplaced(page):
    """What is wrong with the length of a page of docs/, and with the lists of pages."""
    if (lines := read(page).count("\n")) > LONGEST:
        yield f"has {lines} lines, more than {LONGEST}"
    if page != "docs/README.md" and f"]({page.removeprefix('docs/')})" not in read("docs/README.md"):
        yield "is not in docs/README.md"
    if f": {page}\n" not in read("docs/site.yml"):
        yield "is not in docs/site.yml"


def goals_named(text):
    """Finds targets in `code` and at the beginning of lines in fences, because in prose `make` is a verb."""
    lines = [line for fence in FENCE.finditer(text) for line in fence[0].splitlines()]
    for code in lines + re.findall(r"`([^`\n]+)`", without_fences(text)):
        if found := GOAL.match(code):
            yield found[1]


def main():
    passed, faults = 0, []
    pages = [name for name in sorted(os.listdir(ROOT)) if name.endswith(".md")] + list(files((".md",), "docs", *SOURCES))
    known = {page: anchors(page) for page in pages}
    for page in pages:
        text = without_fences(read(page))
        for link in LINK.finditer(text):
            if re.match(r"[a-z]+:", link[1]):
                continue
            path, _, anchor = link[1].partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            place = f"{page}:{text.count(chr(10), 0, link.start()) + 1}: {link[1]}"
            if not os.path.exists(os.path.join(ROOT, target)):
                faults.append(f"{place}: no such file")
            elif anchor and anchor not in known.get(target, ()):
                faults.append(f"{place}: no such heading")
            else:
                passed += 1
    for page in pages:
        left_out = sections_left_out(page)
        passed += left_out == []
        faults += [f"{page}: its list of sections lacks {name}" for name in left_out or []]
    for page in files((".md",), "docs"):
        wrong = list(misplaced(page))
        passed += not wrong
        faults += [f"{page} {fault}" for fault in wrong]
    goals = set(re.findall(r"^script_goals =(.*)", read("Makefile"), re.MULTILINE)[0].split()) | OF_PGXS
    goals |= set(" ".join(re.findall(r"^\.PHONY:(.*)", read("Makefile"), re.MULTILINE)).split())
    for page in pages:
        for name in goals_named(read(page)):
            if name in goals:
                passed += 1
            else:
                faults.append(f"{page}: make {name}: no such target")
    for path in [*pages, *files((".cpp", ".h", ".sql", ".py", ".sh", ".pl", ".js", ".spec"), *SOURCES)]:
        for named in NAMED.findall(read(path)):
            if os.path.exists(os.path.join(ROOT, named)):
                passed += 1
            else:
                faults.append(f"{path}: {named}: no such file")
    for fault in faults:
        print(f"not ok - {fault}")
    print(f"{passed} passed, {len(faults)} failed")
    sys.exit(bool(faults) or passed == 0)


if __name__ == "__main__":
    main()
