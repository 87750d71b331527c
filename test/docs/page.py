"""What a page of the documentation consists of, for a test: its fences, and the comments that say how to treat them.

Every fence is an example and is run, but for those in the language `text`. A comment in the page, which is not shown, may say

    <!-- docs-check: skip: WHY -->      the next fence cannot be run
    <!-- docs-check: anew -->           what follows begins in a new database
    <!-- docs-check: run SQL -->        what an example needs and the page does not tell
    <!-- docs-check: meanwhile SQL -->  the same in another session, which runs beside the next fence
    <!-- docs-check: shell COMMANDS --> the same for a shell
    <!-- docs-check: until SQL -->      the next fence is a program that does not end: it is ended when SQL answers true
"""
import re
from dataclasses import dataclass

COMMENT = re.compile(r"<!-- docs-check: (skip|anew|run|meanwhile|shell|until)(.*?)-->", re.DOTALL)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# A statement ends with its line, by a semicolon (a comment may follow) or a command of psql.
ENDS = re.compile(r";\s*(--.*)?$|\\g(set)?\b|^\\")


@dataclass
class Comment:
    line: int
    what: str
    text: str


@dataclass
class Fence:
    line: int
    language: str
    text: str
    begin: int     # where its text begins in the page
    indent: str


@dataclass
class Statement:
    line: int      # of the page
    prompt: str    # '=>' or '$'
    text: str
    shown: str     # its output in the page
    begin: int     # of the output, in the text of the fence
    end: int


def items(page):
    """The comments and fences of a page, in order."""
    found = []
    for match in COMMENT.finditer(page):
        found.append((match.start(), Comment(line_of(page, match.start()), match[1], match[2].strip().removeprefix(":").strip())))
    for match in FENCE.finditer(page):
        found.append((match.start(), Fence(line_of(page, match.start()), match[2], match[3], match.start(3), match[1])))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def statements(fence):
    """The statements of a transcript with what it shows of their output; None when it is none."""
    lines = fence.text.splitlines(keepends=True)
    if not lines or not re.match(r"(=>|\$) ", lines[0].strip() + " "):
        return None
    found, place, number = [], 0, 0
    while number < len(lines):
        prompt, text = lines[number].strip().split(" ", 1)
        line = fence.line + 1 + number
        text += "\n"
        place += len(lines[number])
        number += 1
        while prompt == "=>" and not ENDS.search(text.rstrip()) and number < len(lines):
            text += lines[number]
            place += len(lines[number])
            number += 1
        begin, shown = place, ""
        while number < len(lines) and not re.match(r" *(=>|\$) ", lines[number]):
            shown += lines[number]
            place += len(lines[number])
            number += 1
        found.append(Statement(line, prompt, text, shown, begin, place))
    return found
