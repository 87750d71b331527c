# A Redis server for BullMQ and for the group "brokers", on a socket, with an append-only file that is flushed every second or at
# each command. Called by peers.py and broker_peers.py.

import subprocess

import servers

PREFIX = 'bull:bench:'
# Lists, or sorted sets of finished jobs.
SETS = {'completed', 'failed'}


class Server(servers.Server):
    def __init__(self, fsync):
        self.fsync = fsync
        super().__init__()

    def command(self):
        return ['redis-server', '--port', '0', '--unixsocket', self.socket, '--dir', self.directory, '--appendonly', 'yes',
                '--appendfsync', self.fsync, '--save', '', '--auto-aof-rewrite-percentage', '0']

    def answers(self):
        return self.accepts() and self.call('PING') == 'PONG'

    def call(self, *words):
        return subprocess.run(['redis-cli', '-s', self.socket, *words], capture_output=True, text=True).stdout.strip()

    def flush(self):
        self.call('FLUSHALL')

    def count(self, name):
        return int(self.call('ZCARD' if name in SETS else 'LLEN', PREFIX + name))
