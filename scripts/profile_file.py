# Reads what callgrind writes: the functions, what each has cost by itself, and what those cost that it called.

import re
from collections import defaultdict

NAMED = re.compile(r'\((\d+)\)(?: (.*))?$')


class Profile:
    """Costs are lists, one number for each of `events`. own: by (object, file, function); called: by caller's and callee's
    name, (calls, cost of the callee with all that it called)."""

    def __init__(self, path):
        self.events = []
        self.own = defaultdict(list)
        self.called = {}
        names = {'ob': {}, 'fl': {}, 'fn': {}}
        at = {'ob': '', 'fl': '', 'fn': ''}
        callee = None
        calls = 0
        after_calls = False
        for line in open(path, errors='replace'):
            line = line.rstrip('\n')
            if after_calls:
                self._add_call(at['fn'], callee, calls, self._costs(line))
                after_calls = False
            elif line[:1].isdigit() or line[:1] in '+-*':
                costs = self._costs(line)
                known = self.own[(at['ob'], at['fl'], at['fn'])]
                known.extend([0] * (len(costs) - len(known)))
                for number, cost in enumerate(costs):
                    known[number] += cost
            elif line.startswith('events:'):
                self.events = line.split()[1:]
            elif line.startswith('calls='):
                calls = int(line[6:].split()[0])
                after_calls = True
            elif '=' in line:
                what, value = line.split('=', 1)
                kind = {'ob': 'ob', 'fl': 'fl', 'fn': 'fn', 'cob': 'ob', 'cfi': 'fl', 'cfl': 'fl', 'cfn': 'fn',
                        'fi': 'fl', 'fe': 'fl'}.get(what)
                if kind is None:
                    continue
                found = NAMED.match(value)
                name = value
                if found:
                    if found.group(2) is not None:
                        names[kind][found.group(1)] = found.group(2)
                    name = names[kind][found.group(1)]
                # fi and fe: lines of another file, which belong to the function all the same.
                if what in at:
                    at[what] = name
                elif what == 'cfn':
                    callee = name

    @staticmethod
    def _costs(line):
        return [int(cost) for cost in line.split()[1:]]

    def _add_call(self, caller, callee, calls, costs):
        known_calls, known = self.called.get((caller, callee), (0, []))
        known.extend([0] * (len(costs) - len(known)))
        self.called[(caller, callee)] = (known_calls + calls, [a + b for a, b in zip(known, costs + [0] * len(known))])

    def total(self, event=0):
        return sum(costs[event] for costs in self.own.values() if len(costs) > event)

    def of_function(self, name, event=0, caller=None):
        """What the calls of a function have cost, with all that it called; of one caller, if that is named."""
        return sum(costs[event] for (by, of), (_, costs) in self.called.items()
                   if of == name and by != name and (caller is None or by == caller) and len(costs) > event)
