#!/usr/bin/env python3
"""extract.py DIRECTORY: copies the prose of the files named on standard input into Markdown files below DIRECTORY.

The prose of NAME is in NAME.md, on the same lines as in NAME: a Markdown document as it is, and of C++ and SQL files the comments and
the string literals.
"""
import os
import re
import sys

LITERALS = {
    '.cpp': r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    '.sql': r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'",
}
LITERALS['.h'] = LITERALS['.cpp']


def prose(source, pattern):
    """Returns the comments and the string literals, on the same lines as in the source."""
    out, end = [], 0
    for match in re.finditer(pattern, source, re.S):
        text = match.group()
        if text.startswith(('//', '--')):
            # A line with --@ is a directive.
            text = '' if text.startswith('--@') else text[2:].lstrip(':/!')
        elif text.startswith('/*'):
            text = text[2:-2]
        else:
            # A single word is a name.
            text = '' if re.fullmatch(r'\W\w*\W', text) else re.sub(r'\\["n]', ' ', text[1:-1])
        out += ['\n' * source.count('\n', end, match.start()), ' ', text]
        end = match.end()
    # Without its first blank, an indented line would be code.
    return re.sub(r'^ +(?=\S)', lambda m: m.group() if len(m.group()) > 4 else '', ''.join(out), flags=re.M) + '\n'


def main(directory):
    for name in filter(os.path.exists, sys.stdin.read().splitlines()):
        with open(name, encoding='utf-8') as file:
            text = file.read()
        pattern = LITERALS.get(os.path.splitext(name)[1])
        path = os.path.join(directory, name + '.md')
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(prose(text, pattern) if pattern else text)


if __name__ == '__main__':
    main(sys.argv[1])
