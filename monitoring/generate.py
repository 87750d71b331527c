#!/usr/bin/python3
"""Makes the configurations of this directory from jobq's own catalogue of metrics, so that no name stands in two places.

    psql -XqAt -c 'SELECT name, labels FROM jobq.metric_families()' mydb | monitoring/generate.py DIRECTORY [--schema SCHEMA]

writes sql_exporter.yml, postgres_exporter.yml, prometheus.yml and grafana.json into DIRECTORY. SCHEMA is the schema that contains
the extension's functions, "public" by default. `make monitoring` compares the files with those that are there.
"""

import argparse
import json
import sys
from pathlib import Path

NOTE = "# Made by monitoring/generate.py from jobq.metric_families(): change that, not this.\n"


def read_labels(lines):
    """All labels of all metrics, each once, in their order; `le` is that of the buckets of histograms."""
    labels = {}
    for line in lines:
        _, names = line.rstrip("\n").split("|")
        labels.update(dict.fromkeys(name for name in names.split(",") if name))
    return [*labels, "le"]


def query(labels, schema, indent):
    """One query for all metrics: what it is called is a label at first, and becomes the name in prometheus.yml.

    The query names the schemas of the function and of the operator, because the search path of the exporter's role could lead to
    others of the same name."""
    columns = ["m.name AS metric", *(f"coalesce(m.labels OPERATOR(pg_catalog.->>) '{label}', '') AS {label}" for label in labels), "m.value"]
    return ("SELECT " + ",\n       ".join(columns) + f'\nFROM "{schema}".jobq_metrics() m').replace("\n", "\n" + indent)


def sql_exporter(labels, schema):
    return NOTE + f"""# For Debian's prometheus-sql-exporter (port 9237), which asks each of the connections by itself every so often. The role needs
#   CREATE ROLE exporter LOGIN PASSWORD '...'; SELECT jobq_grant('exporter', 'monitor');
# If the extension is in another schema than "{schema}", replace that name at the end of the query.
jobs:
  - name: jobq
    interval: '15s'
    connections:
      - 'postgres://exporter:PASSWORD@localhost:5432/DATABASE?sslmode=disable'
    queries:
      - name: jobq
        help: What jobq_metrics() tells
        labels: [{', '.join(['metric', *labels])}]
        values: [value]
        query: |
          {query(labels, schema, ' ' * 10)}
"""


def postgres_exporter(labels, schema):
    entries = "".join(f"    - {label}: {{usage: LABEL, description: label}}\n" for label in ["metric", *labels])
    return NOTE + f"""# For Debian's prometheus-postgres-exporter (port 9187): --extend.query-path=/etc/prometheus/jobq.yml, one exporter for each database:
#   DATA_SOURCE_NAME='postgres://exporter:PASSWORD@localhost:5432/DATABASE?sslmode=disable'
# The role needs
#   CREATE ROLE exporter LOGIN PASSWORD '...'; SELECT jobq_grant('exporter', 'monitor'); GRANT pg_monitor TO exporter;
# If the extension is in another schema than "{schema}", replace that name at the end of the query.
jobq:
  query: |
    {query(labels, schema, ' ' * 4)}
  metrics:
{entries}    - value: {{usage: GAUGE, description: What jobq_metrics() tells}}
"""


def prometheus():
    return NOTE + """# The part of prometheus.yml that scrapes one of the two exporters. Both say sql_jobq or jobq_value{metric="jobq_jobs", ...}: what
# jobq calls a metric becomes its name.
rule_files: [alerts.yml]
scrape_configs:
  - job_name: jobq
    static_configs:
      - targets: ['localhost:9237']
    metric_relabel_configs:
      - source_labels: [__name__, metric]
        regex: '(?:sql_jobq|jobq_value);(jobq_.+)'
        target_label: __name__
        replacement: '$1'
      - regex: 'metric|col|driver|sql_job|user'
        action: labeldrop
"""


# The dashboard: (title, unit, width of 24, [(expression, legend)]).
OF_QUEUE = 'queue=~"$queue"'
PANELS = [
    ("Jobs that wait", "short", 12, [(f'sum by (queue) (jobq_jobs{{status=~"pending|scheduled|blocked",{OF_QUEUE}}})', "{{queue}}")]),
    ("Age of the oldest claimable job", "s", 12, [(f"jobq_queue_oldest_pending_seconds{{{OF_QUEUE}}}", "{{queue}}")]),
    ("Enqueued per second", "ops", 8, [(f"sum by (queue) (rate(jobq_jobs_enqueued_total{{{OF_QUEUE}}}[$__rate_interval]))", "{{queue}}")]),
    ("Completed per second", "ops", 8, [(f"sum by (queue) (rate(jobq_jobs_completed_total{{{OF_QUEUE}}}[$__rate_interval]))", "{{queue}}")]),
    ("Jobs that run", "short", 8, [(f'sum by (queue) (jobq_jobs{{status="processing",{OF_QUEUE}}})', "{{queue}}")]),
    ("Attempts that did not complete, per second", "ops", 12,
     [(f'sum by (queue, outcome) (rate(jobq_attempts_ended_total{{outcome!="completed",{OF_QUEUE}}}[$__rate_interval]))', "{{queue}} {{outcome}}")]),
    ("Jobs that failed permanently, in 15 minutes", "short", 12,
     [(f"sum by (queue, kind) (increase(jobq_jobs_failed_total{{{OF_QUEUE}}}[15m]))", "{{queue}} {{kind}}")]),
    ("Time from due to claim", "s", 12,
     [(f"histogram_quantile({q}, sum by (le) (rate(jobq_job_wait_seconds_bucket{{{OF_QUEUE}}}[$__rate_interval])))", f"p{q * 100:.0f}")
      for q in (0.5, 0.95, 0.99)]),
    ("Run time, 95 of 100 attempts", "s", 12,
     [(f"histogram_quantile(0.95, sum by (le, queue, kind) (rate(jobq_job_run_seconds_bucket{{{OF_QUEUE}}}[$__rate_interval])))",
       "{{queue}} {{kind}}")]),
    ("Workers", "short", 8, [(f"sum by (queue) (jobq_busy_workers{{{OF_QUEUE}}})", "{{queue}} busy"),
                             (f"sum by (queue) (jobq_waiting_sessions{{{OF_QUEUE}}})", "{{queue}} asleep")]),
    ("Executors of handlers", "short", 8, [("sum by (state) (jobq_executors)", "{{state}}"), ("max(jobq_max_executors)", "at most")]),
    ("Schedules", "short", 8, [("sum by (state) (jobq_schedules)", "{{state}}")]),
    ("How late the duties are", "s", 12, [("jobq_round_overdue_seconds", "{{instance}}"), ("jobq_schedules_overdue_seconds", "{{instance}} schedules")]),
    ("Duties that fail, times in a row", "short", 12, [("jobq_duty_failures > 0", "{{instance}} {{duty}}")]),
    ("Tables in shared memory, part in use", "percentunit", 12,
     [("max by (instance, part) (jobq_shared_memory_entries / jobq_shared_memory_capacity)", "{{instance}} {{part}}")]),
    ("Entries evicted from shared memory per second", "ops", 12,
     [("max by (instance, part) (rate(jobq_shared_memory_evictions_total[$__rate_interval]))", "{{instance}} {{part}}")]),
]
SOURCE = {"type": "prometheus", "uid": "${source}"}
HEIGHT = 8


def grafana():
    panels, x, y = [], 0, 0
    for number, (title, unit, width, targets) in enumerate(PANELS, 1):
        if x + width > 24:
            x, y = 0, y + HEIGHT
        panels.append({
            "id": number, "type": "timeseries", "title": title, "datasource": SOURCE,
            "gridPos": {"h": HEIGHT, "w": width, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                        "tooltip": {"mode": "multi", "sort": "desc"}},
            "targets": [{"refId": chr(ord("A") + n), "datasource": SOURCE, "expr": expression, "legendFormat": legend, "range": True}
                        for n, (expression, legend) in enumerate(targets)]})
        x += width
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "queue", "label": "Queue", "type": "query", "datasource": SOURCE, "query": "label_values(jobq_jobs, queue)",
         "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*"}]
    dashboard = {"title": "jobq", "uid": "jobq", "description": "Queues, jobs and workers of jobq", "tags": ["jobq", "postgresql"],
                 "schemaVersion": 39, "editable": True, "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
                 "timezone": "browser", "templating": {"list": variables}, "annotations": {"list": []}, "links": [], "panels": panels}
    return json.dumps(dashboard, indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Makes the configurations of exporters, Prometheus, and Grafana from jobq.metric_families().")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--schema", default="public", help='schema that contains jobq_metrics() (default: "public")')
    options = parser.parse_args()
    if '"' in options.schema:
        parser.error("PostgreSQL accepts no double quote in the name of an extension's schema")
    labels = read_labels(sys.stdin)
    for name, text in [("sql_exporter.yml", sql_exporter(labels, options.schema)), ("postgres_exporter.yml", postgres_exporter(labels, options.schema)),
                       ("prometheus.yml", prometheus()), ("grafana.json", grafana())]:
        (options.directory / name).write_text(text)


if __name__ == "__main__":
    main()
