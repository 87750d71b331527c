# A Redis of its own for BullMQ, on a socket, with an append-only file that is written every second or at each command.
# Called by peers.py.

import os
import shutil
import subprocess
import tempfile
import time

PREFIX = 'bull:bench:'
# Lists, or sorted sets of what has ended.
SETS = {'completed', 'failed'}


class Server:
    def __init__(self, fsync):
        self.directory = tempfile.mkdtemp(prefix='redis-')
        self.socket = os.path.join(self.directory, 'socket')
        self.process = subprocess.Popen(
            ['redis-server', '--port', '0', '--unixsocket', self.socket, '--dir', self.directory, '--appendonly', 'yes',
             '--appendfsync', fsync, '--save', '', '--auto-aof-rewrite-percentage', '0'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if os.path.exists(self.socket) and self.call('PING') == 'PONG':
                return
            time.sleep(0.1)
        raise RuntimeError('redis-server does not answer')

    def call(self, *words):
        return subprocess.run(['redis-cli', '-s', self.socket, *words], capture_output=True, text=True).stdout.strip()

    def flush(self):
        self.call('FLUSHALL')

    def count(self, name):
        return int(self.call('ZCARD' if name in SETS else 'LLEN', PREFIX + name))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory)
