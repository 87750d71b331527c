"""The table of scenarios and languages for clients/README.md."""


def table(programs, scenarios, results):
    lines = ["| | " + " | ".join(program.name for program in programs) + " |", "|---|" + "---|" * len(programs)]
    for scenario in scenarios:
        cells = [cell(program, scenario, results) for program in programs]
        lines.append(f"| `{scenario.name}` | " + " | ".join(cells) + " |")
    lacks = [f"* {program.name}: {', '.join(f'`{name}`' for name in names)}: {why}"
             for program in programs for why, names in by_reason(program.lacks).items()]
    if lacks:
        lines += ["", "What is not played, and why:", "", *lacks]
    return "\n".join(lines) + "\n"


def cell(program, scenario, results):
    if scenario.name in program.lacks:
        return "-"
    found = [wrong is None for (name, played, _), wrong in results.items() if (name, played) == (program.name, scenario.name)]
    return "not played" if not found else "yes" if all(found) else "**fails**"


def by_reason(lacks):
    reasons = {}
    for name, why in lacks.items():
        reasons.setdefault(why, []).append(name)
    return reasons
