#!/usr/bin/env python3
"""Checks the models of jobq's protocols with spin. Run it from any directory.

  test/model/run.py                        checks every model and every defect, and the functions that the models name
  test/model/run.py leases                 checks one model
  test/model/run.py leases DEFECT          plants one defect and prints the counterexample, step by step
  test/model/run.py leases NAME=VALUE...   prints the counterexample of the model without a defect, if there is one

docs/internals/models.md describes the models. Prints TAP. The header of a model has these lines:

  scope NAME=VALUE...     a size at which the model is checked exhaustively
  liveness NAME=VALUE...  a size at which the ltl formula of the model is checked under weak fairness
  defect NAME SIZES: TEXT a mistake that "#ifdef NAME" plants in the model, and for which spin must find a counterexample
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / 'docs' / 'internals' / 'models.md'
SOURCE = re.compile(r'\b(src/\w+/\w+\.(?:cpp|h)):(\w+)')
DEPTH = '-m200000'


def run(command, directory):
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


class Model:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        self.text = path.read_text()
        self.scopes = [line.split() for line in re.findall(r'^ \* scope (.+)$', self.text, re.M)]
        self.liveness = [line.split() for line in re.findall(r'^ \* liveness (.+)$', self.text, re.M)]
        self.defects = {name: (sizes.split(), text)
                        for name, sizes, text in re.findall(r'^ \* defect (\w+) (.+?): (.+)$', self.text, re.M)}

    def search(self, directory, sizes, compiler, *options):
        """Returns what the verifier prints."""
        shutil.copy(self.path, directory)
        made = run(['spin', '-a', *['-D' + size for size in sizes], self.path.name], directory)
        made += run(['gcc', '-w', '-DMEMLIM=4096', '-o', 'pan', *compiler, 'pan.c'], directory)
        if not (directory / 'pan').exists():
            return made
        return run(['./pan', DEPTH, *options], directory)


def holds(output):
    """Returns whether the verifier has searched all states and has found no error."""
    return re.search(r', errors: 0$', output, re.M) is not None and 'not completed' not in output and \
        'max search depth too small' not in output


def found(output):
    """Returns what the verifier has found, or None."""
    violated = re.search(r'^pan:\d+: ((?:assertion violated|invalid end state|acceptance cycle|non-progress cycle).*?)(?: \(at depth \d+\))?$',
                         output, re.M)
    return violated[1] if violated and re.search(r', errors: [1-9]', output) else None


def states(output):
    return re.search(r'(\d\S*) states, stored', output)[1]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, passed, text, detail=''):
        self.count += 1
        self.failed += not passed
        print(f'{"ok" if passed else "not ok"} {self.count} - {text}', flush=True)
        if not passed:
            print(''.join(f'# {line}\n' for line in detail.splitlines()[-40:]), end='', flush=True)

    def end(self):
        print(f'1..{self.count}')
        return self.failed


def in_directory(body):
    with tempfile.TemporaryDirectory(prefix='jobq-model.') as directory:
        return body(pathlib.Path(directory))


def check_scope(tap, model, sizes):
    output = in_directory(lambda at: model.search(at, sizes, ['-O1', '-DSAFETY', '-DNOCLAIM', '-DCOLLAPSE']))
    passed = holds(output)
    tap.ok(passed, f'{model.name}, {" ".join(sizes)}: no error' + (f' in {states(output)} states' if passed else ''), output)


def check_liveness(tap, model, sizes):
    output = in_directory(lambda at: model.search(at, sizes, ['-O1', '-DNFAIR=3'], '-a', '-f'))
    passed = holds(output) and 'never claim         \t+' in output
    tap.ok(passed, f'{model.name}, {" ".join(sizes)}: every run ends' + (f', in {states(output)} states' if passed else ''), output)


def find_error(at, model, sizes, *options):
    return model.search(at, sizes, ['-O0', '-DSAFETY', '-DNOCLAIM', *options])


def check_defect(tap, model, defect):
    output = in_directory(lambda at: find_error(at, model, [defect, *model.defects[defect][0]]))
    violated = found(output)
    planted = re.search(rf'^#if.*\b{defect}\b', model.text, re.M) is not None
    tap.ok(violated is not None and planted, f'{model.name}, {defect}: found ({violated})', output)


def check_names(tap, texts):
    """Checks that the sources define the functions that the models and the page name."""
    for path, name in sorted(set(SOURCE.findall(''.join(texts)))):
        source = ROOT / path
        text = source.read_text() if source.exists() else ''
        # A function, a macro, or a statement; a call alone does not count.
        defined = re.search(rf'^(?!return\b)[\w:<>*&\[\]= ,]*[ *&]{name}\(|^(?:Statement )?{name} = |^#define {name}\b|'
                            rf'^PGDLLEXPORT Datum {name}\(', text, re.M)
        tap.ok(defined is not None, f'{path} defines {name}')


def show(model, sizes):
    """Prints the counterexample, step by step."""
    def body(at):
        # A breadth-first search finds a shortest counterexample, unless it runs out of memory.
        output = find_error(at, model, sizes, '-DBFS')
        if found(output) is None:
            output = find_error(at, model, sizes)
        if found(output) is None:
            print(output)
            return 1
        print(f'{model.name}, {" ".join(sizes)}: {found(output)}\n')
        steps = run(['spin', '-t', '-p', *['-D' + size for size in sizes], model.path.name], at)
        last = None
        for line in steps.splitlines():
            step = re.match(r'\s*\d+:\s*proc\s+(\d+) \((.+?):\d+\) \S+:(\d+) \(state \d+\)\s*\[(.*)\]', line)
            if step is None:
                last = None
                print(line)
                continue
            process, name, number, code = step.groups()
            actor = f'{name} {process}'
            if code in ('(1)', 'else', '.(goto)') or code.startswith('goto '):
                continue
            if actor != last:
                print(f'{actor}:')
            last = actor
            print(f'    {int(number):4}  {code}')
        return 0
    return in_directory(body)


def main(arguments):
    models = {path.stem: Model(path) for path in sorted(HERE.glob('*.pml'))}
    wanted = arguments[:1] or list(models)
    if wanted[0] not in models:
        sys.exit(f'no such model: {wanted[0]}; there are: {" ".join(models)}')
    if len(arguments) > 1:
        model = models[wanted[0]]
        if arguments[1] in model.defects:
            return show(model, [arguments[1], *model.defects[arguments[1]][0]])
        if '=' not in arguments[1]:
            sys.exit(f'no such defect of {model.name}: {arguments[1]}; there are: {" ".join(model.defects)}')
        return show(model, arguments[1:])
    tap = Tap()
    for model in (models[name] for name in wanted):
        for sizes in model.scopes:
            check_scope(tap, model, sizes)
        for sizes in model.liveness:
            check_liveness(tap, model, sizes)
        for defect in model.defects:
            check_defect(tap, model, defect)
    check_names(tap, [model.text for model in models.values()] + [PAGE.read_text()])
    return 1 if tap.end() else 0


if __name__ == '__main__':
    os.environ['LC_ALL'] = 'C'
    sys.exit(main(sys.argv[1:]))
