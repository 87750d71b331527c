"""The command completion: prints a script that completes the command line in a shell. The words come from the parser."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Sequence

from .command import Commands


@dataclass(frozen=True)
class Word:
    """A word of the command line. The first one of its names is the shortest."""
    names: Sequence[str]
    help: str
    takes_value: bool = False
    values: Sequence[str] = ()


Words = Dict[str, List[Word]]   # the words that can follow each command; "" stands for no command


def add(commands: Commands) -> None:
    command = commands.add("completion", lambda args: run(args, commands.parser), "print a completion script for a shell", (
        'For bash, add eval "$(jobq completion bash)" to ~/.bashrc. For zsh, add eval "$(jobq completion zsh)" to ~/.zshrc, after compinit. For '
        "fish, run jobq completion fish > ~/.config/fish/completions/jobq.fish."), connects=False, json=None)
    command.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    print(SHELLS[args.shell](_words(parser)))
    return 0


def _words(parser: argparse.ArgumentParser) -> Words:
    found: Words = {"": _options(parser)}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found[""] += [Word([one.dest], one.help or "") for one in action._choices_actions]
            found.update((name, _options(command)) for name, command in action.choices.items())
    return found


def _options(parser: argparse.ArgumentParser) -> List[Word]:
    """Returns the options of a command, and the values of its arguments that have a fixed set of values."""
    found: List[Word] = []
    for action in parser._actions:
        values = [] if action.choices is None or isinstance(action, argparse._SubParsersAction) else list(map(str, action.choices))
        if action.option_strings:
            found.append(Word(action.option_strings, action.help or "", action.nargs != 0, values))
        else:
            found += [Word([value], action.help or "") for value in values]
    return found


def _cases(words: Words, offer: Callable[[Iterable[str]], str], described: bool) -> str:
    """Returns the branches of a case statement: first the values of options, then the words of each command."""
    found: Dict[str, List[str]] = {}   # the words that are offered, and after what
    for command, all_words in words.items():
        for word in all_words:
            if word.takes_value:
                found.setdefault(offer(word.values), []).extend(_quoted(f"{command} {name}") for name in word.names)
    for command, all_words in words.items():
        offered = [f"{name}:{word.help}" if described else name for word in all_words for name in word.names]
        found.setdefault(offer(offered), []).append(_quoted(f"{command} ") + "*")
    return "\n".join(f"        {' | '.join(patterns)}) {offered} ;;" for offered, patterns in found.items())


def _commands(words: Words) -> str:
    return " | ".join(filter(None, words))


def _bash(words: Words) -> str:
    return BASH.format(commands=_commands(words), cases=_cases(words, lambda names: f'words="{" ".join(names)}"', False))


def _zsh(words: Words) -> str:
    return ZSH.format(commands=_commands(words), cases=_cases(words, lambda names: f'offered=({" ".join(map(_quoted, names))})', True))


def _fish(words: Words) -> str:
    lines = ["complete -c jobq -f"]
    for command, all_words in words.items():
        condition = f"__fish_seen_subcommand_from {command}" if command else "__fish_use_subcommand"
        for word in all_words:
            lines.append(" ".join(["complete -c jobq -n", _fish_quoted(condition), *_fish_names(word), "-d", _fish_quoted(word.help)]))
    return "\n".join(lines)


def _fish_names(word: Word) -> List[str]:
    if not word.names[0].startswith("-"):
        return ["-a", word.names[0]]
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names]
    if not word.takes_value:
        return names
    return [*names, "-x -a", _fish_quoted(" ".join(word.values))] if word.values else [*names, "-r -F"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


BASH = """_jobq() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word words=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in {commands}) command=$word; break ;; esac
    done
    case "$command $previous" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _jobq jobq"""

ZSH = """#compdef jobq
_jobq() {{
    local command= word
    local -a words_before=("${{(@)words[2,CURRENT-1]}}") previous=("${{words[CURRENT-1]}}")
    for word in $words_before; do
        case $word in {commands}) command=$word; break ;; esac
    done
    local -a offered
    case "$command $previous" in
{cases}
    esac
    if (( $#offered )); then _describe jobq offered; else _files; fi
}}
if [ "$funcstack[1]" = _jobq ]; then _jobq "$@"; else compdef _jobq jobq; fi"""

SHELLS: Dict[str, Callable[[Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
