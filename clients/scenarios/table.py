"""Makes the table of scenarios and languages for clients/CONTRACT.md."""


def table(programs, scenarios, results):
    programs = [program for program in programs if program.command is not None]
    lines = ["| | " + " | ".join(program.name for program in programs) + " |", "|---|" + "---|" * len(programs)]
    for scenario in scenarios:
        cells = [cell(program, scenario, results) for program in programs]
        lines.append(f"| `{scenario.name}` | " + " | ".join(cells) + " |")
    lacks = [f"* {program.name}: {', '.join(f'`{name}`' for name in names)}: {why}"
             for program in programs for why, names in by_reason(program.lacks).items()]
    if lacks:
        lines += ["", "Scenarios that were not run, and why:", "", *lacks]
    return "\n".join(lines) + "\n"


def cell(program, scenario, results):
    lacks = program.lacks.get(scenario.name)
    if isinstance(lacks, str):
        return "-"
    lacks = lacks or {}
    found = {way: results.get((program.name, scenario.name, way), "not played") for way in scenario.ways if way not in lacks}
    if any(wrong not in (None, "not played") for wrong in found.values()):
        return "**fails**"
    if "not played" in found.values():
        return "not played"
    return f"yes, not {', '.join(lacks)}" if lacks else "yes"


def by_reason(lacks):
    reasons = {}
    for name, why in lacks.items():
        for way, reason in why.items() if isinstance(why, dict) else [("", why)]:
            reasons.setdefault(f"{way}: {reason}" if way else reason, []).append(name)
    return reasons
