"""A hook of mkdocs for `make site`: shows code blocks in different languages that follow each other as tabs.

The pages stay plain Markdown. Only blank lines and comments may separate the blocks. If two of the blocks have the same language,
the hook does not change any of them, because they are not alternatives.
"""
import re
import textwrap

LABELS = {"python": "Python", "js": "Node"}
BLOCK = rf"^```(?:{'|'.join(LABELS)})\n.*?^```\n"
SPACE = r"(?:\s|<!--(?:(?!-->).)*-->)*"
FLAGS = re.MULTILINE | re.DOTALL


def tabs(blocks):
    found = re.findall(BLOCK, blocks[0], FLAGS)
    by_language = {block[3:block.index("\n")]: block for block in found}
    if len(by_language) < len(found):
        return blocks[0]
    return "\n".join(f'=== "{LABELS[language]}"\n\n{textwrap.indent(block, " " * 4)}' for language, block in by_language.items()) + "\n"


def on_page_markdown(markdown, **_):
    return re.sub(f"(?:{BLOCK}{SPACE}){{2,}}", tabs, markdown, flags=FLAGS)
