# Reads the output of callgrind: the functions, the cost of each without its callees, and the cost of the calls that it has made.

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
                # fi and fe: lines of another file that still belong to the function.
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

    def by_caller(self, part_of, rest):
        """Returns the costs by part. A function belongs to the part that part_of(object, name) returns. If that is None, its cost is
        attributed to its callers, in proportion to the cost of their calls; if it has no caller, to `rest`."""
        def cost_of(costs):
            return costs[0] if costs else 0

        objects = {}
        own = defaultdict(int)
        for (binary, _, name), costs in self.own.items():
            objects.setdefault(name, binary)
            own[name] += cost_of(costs)
        shares = {}
        callers = defaultdict(list)
        for (by, of), (_, costs) in self.called.items():
            if by != of and cost_of(costs) > 0:
                callers[of].append((by, cost_of(costs)))
        for name in set(own) | set(callers) | {by for by, _ in self.called}:
            part = part_of(objects.get(name, ''), name)
            if part is None and not callers[name]:
                part = rest
            shares[name] = {part: 1.0} if part is not None else {}
        open_ones = [name for name, share in shares.items() if not share]
        # Repeated until nothing changes, because functions may call each other recursively.
        for _ in range(1000):
            moved = 0.0
            for name in open_ones:
                share = defaultdict(float)
                for by, cost in callers[name]:
                    for part, of in shares[by].items():
                        share[part] += of * cost
                total = sum(share.values())
                if total == 0:
                    continue
                new = {part: of / total for part, of in share.items()}
                moved += own[name] * sum(abs(of - shares[name].get(part, 0)) for part, of in new.items())
                shares[name] = new
            if moved <= 1e-6 * sum(own.values()):
                break
        parts = defaultdict(float)
        for name, cost in own.items():
            for part, of in (shares[name] or {rest: 1.0}).items():
                parts[part] += of * cost
        return dict(parts)
