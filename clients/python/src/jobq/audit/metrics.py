"""The results of an audit as metrics, in the text format of Prometheus: in a file for the textfile collector of node_exporter, or for a port."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# name: (type, help)
FAMILIES = {
    "jobq_audit_violations_total": ("counter", "Violations of a law that the audit has found; must stay 0."),
    "jobq_audit_transactions_total": ("counter", "Transactions that the audit has read."),
    "jobq_audit_changes_total": ("counter", "Changed rows that the audit has read."),
    "jobq_audit_jobs": ("gauge", "Unfinished jobs that the audit remembers."),
    "jobq_audit_wal_retained_bytes": ("gauge", "WAL that the server retains for the audit."),
    "jobq_audit_running": ("gauge", "1 while the audit runs, 0 after it has ended."),
    "jobq_audit_last_read_timestamp_seconds": ("gauge", "When the audit last read changes.")}


def text(database: str, violations: Mapping[str, int], values: Mapping[str, float]) -> str:
    lines: List[str] = []
    for name, (kind, meaning) in FAMILIES.items():
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        labels = f'database="{_quoted(database)}"'
        if name == "jobq_audit_violations_total":
            lines += [f'{name}{{{labels},law="{law.replace(" ", "_")}"}} {count}' for law, count in violations.items()]
        else:
            lines.append(f"{name}{{{labels}}} {values[name]:.15g}")
    return "\n".join(lines) + "\n"


def write(path: Path, content: str) -> None:
    """Replaces the file in one step, so that the collector never reads a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
