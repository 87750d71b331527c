"""Parses a page of the documentation for a test: its fences, and the comments that say how to treat them.

Every fence is an example and is run, except those in the language `text`. A comment in the page, which is not shown, may say

<!-- docs-check: skip: WHY -->      the next fence cannot be run
<!-- docs-check: reset -->          the following examples use a new database
<!-- docs-check: run SQL -->        SQL that an example needs and that the page does not show
<!-- docs-check: background SQL --> SQL for another session, which runs concurrently with the next fence
<!-- docs-check: shell COMMANDS --> shell commands that an example needs; the last programs of the page are in example.py,
                                    example.mjs, and example.sh
<!-- docs-check: until SQL -->      the next fence is a program that does not end: it is terminated when SQL returns true
"""
import re
from dataclasses import dataclass

COMMENT = re.compile(r"<!-- docs-check: (skip|reset|run|background|shell|until)(.*?)-->", re.DOTALL)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# A statement ends at the end of a line, with a semicolon (a comment may follow) or a psql command.
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
    begin: int     # position of its text in the page
    indent: str


@dataclass
class Statement:
    line: int      # in the page
    prompt: str    # '=>' or '$'
    text: str
    shown: str     # its output on the page
    begin: int     # position of the output in the text of the fence
    end: int


def items(page):
    """The comments and fences of a page, in order."""
    found = []
    for match in COMMENT.finditer(page):
        found.append((match.start(), Comment(line_of(page, match.start()), match[1], match[2].strip().removeprefix(":").strip())))
    for match in FENCE.finditer(page):
        found.append((match.start(), Fence(line_of(page, match.start()), match[2], match[3], match.start(3), match[1])))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def examples(page):
    """Whether the page has a fence to run."""
    return any(isinstance(item, Fence) and item.language != "text" for item in items(page))


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def statements(fence):
    """The statements of a transcript with the output that it shows; None if the fence is not a transcript."""
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
