# Describes the machine, the server, and the versions for the report. Called by bench.py.

import json
import os
import platform
import re
import subprocess

SETTINGS = ['shared_buffers', 'max_wal_size', 'min_wal_size', 'checkpoint_timeout', 'full_page_writes', 'fsync', 'wal_compression',
            'autovacuum_naptime', 'max_connections', 'shared_preload_libraries', 'jobq.tick_interval']


def read(path, pattern):
    try:
        with open(path) as file:
            found = re.search(pattern, file.read(), re.M)
            return found.group(1).strip() if found else 'unknown'
    except OSError:
        return 'unknown'


def package_version(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'node', 'node_modules', name, 'package.json')
    try:
        with open(path) as file:
            return json.load(file)['version']
    except OSError:
        return None


def node_version():
    node = os.environ.get('BENCH_NODE')
    if not node:
        return None
    try:
        return subprocess.run([node, '--version'], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def debian_version(package):
    try:
        out = subprocess.run(['dpkg-query', '-W', '-f', '${db:Status-Status} ${Version}', package], capture_output=True, text=True).stdout
    except OSError:
        return None
    return out.split()[1] if out.startswith('installed ') else None


def disk():
    data = os.environ['BENCH_DATA']
    try:
        out = subprocess.run(['df', '--output=fstype,size', '-BG', data], capture_output=True, text=True).stdout
        kind, size = out.splitlines()[-1].split()
        return f'{kind}, {size}'
    except (OSError, ValueError, IndexError):
        return 'unknown'


def describe(bench):
    def one(query):
        row = bench.conn.execute(query).fetchone()
        return row[0] if row else None

    def extension_version(name):
        return one(f"SELECT default_version FROM pg_available_extensions WHERE name = '{name}'")

    memory = int(read('/proc/meminfo', r'^MemTotal:\s+(\d+)') or 0) // 1024
    return {
        'processor': read('/proc/cpuinfo', r'^model name\s*:\s*(.*)$'), 'cores': os.cpu_count(),
        'memory': f'{memory / 1024:.0f} GB', 'file system of the data': disk(),
        'kernel': platform.release(), 'system': read('/etc/os-release', r'^PRETTY_NAME="?([^"\n]*)'),
        'pages of shared memory': '2 MB' if os.environ.get('BENCH_HUGE_PAGES') else '4 kB',
        'PostgreSQL': one('SHOW server_version'),
        'jobq': f"{one('SELECT jobq_version()')} ({os.environ.get('BENCH_COMMIT', 'unknown')})",
        'graphile-worker': package_version('graphile-worker'), 'pg-boss': package_version('pg-boss'),
        'PgQ': extension_version('pgq'), 'pgmq': extension_version('pgmq'),
        'Redis': debian_version('redis-server'), 'beanstalkd': debian_version('beanstalkd'),
        'RabbitMQ': debian_version('rabbitmq-server'), 'NATS': debian_version('nats-server'),
        'BullMQ': package_version('bullmq'), 'amqplib': package_version('amqplib'), 'node': node_version(),
        'settings': {name: one(f'SHOW {name}') for name in SETTINGS},
    }
