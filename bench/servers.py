# Servers that the benchmark starts in addition to the database. Each has its own directory and a socket or a free port, and is
# stopped by its process ID. Called by peers.py, broker_peers.py, and redis.py.

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time


class ServerError(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def children_of(pid):
    """Returns the descendants of pid, nearest first."""
    parents = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open(f'/proc/{name}/stat') as file:
                    parents.setdefault(int(file.read().rpartition(')')[2].split()[1]), []).append(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = [pid]
    for parent in found:
        found += parents.get(parent, [])
    return found[1:]


class Server:
    """Subclasses define command() and answers()."""
    environment = {}
    seconds_to_start = 60

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='broker-')
        self.socket = os.path.join(self.directory, 'socket')
        self.process = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        """Starts the server, also after a kill, with the files that are left."""
        with open(os.path.join(self.directory, 'output'), 'ab') as output:
            self.process = subprocess.Popen(self.command(), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                            cwd=self.directory, env=dict(os.environ, **self.environment))
        until = time.monotonic() + self.seconds_to_start
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise ServerError(f'{self.command()[0]} does not answer: {self.output()}')
            time.sleep(0.05)

    def output(self):
        with open(os.path.join(self.directory, 'output'), errors='replace') as file:
            return file.read()[-600:]

    def accepts(self, port=None):
        """Returns whether a server listens on the socket or the port."""
        with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as probe:
            try:
                probe.connect(('127.0.0.1', port) if port else self.socket)
                return True
            except OSError:
                return False

    def pids(self):
        return [self.process.pid] + children_of(self.process.pid)

    def kill(self):
        """Kills all processes at once, so that none of them can write anything."""
        pids = self.pids()
        for kind in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, kind)
                except ProcessLookupError:
                    pass
        self.process.wait()
        while any(alive(pid) for pid in pids):
            time.sleep(0.01)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


class Beanstalkd(Server):
    def __init__(self, milliseconds):
        self.milliseconds = milliseconds
        super().__init__()

    def command(self):
        # beanstalkd replaces a socket that is left after a kill.
        return ['beanstalkd', '-l', f'unix:{self.socket}', '-b', self.directory, '-f', str(self.milliseconds)]

    def answers(self):
        return self.accepts()


class Nats(Server):
    def __init__(self, sync_interval=None):
        self.sync_interval = sync_interval
        self.port = free_port()
        super().__init__()

    def command(self):
        path = os.path.join(self.directory, 'nats.conf')
        write_nats_configuration(path, self.directory, self.port, self.sync_interval)
        return ['nats-server', '-c', path]

    def answers(self):
        return self.accepts(self.port)


def write_nats_configuration(path, directory, port, sync_interval):
    with open(path, 'w') as file:
        file.write(f'host: 127.0.0.1\nport: {port}\njetstream {{\n  store_dir: "{directory}/store"\n')
        if sync_interval:
            file.write(f'  sync_interval: {sync_interval}\n')
        file.write('}\n')


def nats_knows_sync_interval():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'nats.conf')
        write_nats_configuration(path, directory, 4222, 'always')
        return subprocess.run(['nats-server', '-t', '-c', path], capture_output=True).returncode == 0


class RabbitMq(Server):
    SCRIPT = '/usr/lib/rabbitmq/bin/rabbitmq-server'   # The program on the PATH requires the user root or rabbitmq.

    def __init__(self):
        # A separate epmd (Erlang's name server) keeps the names out of the usual one.
        self.names = None
        self.port, self.names_port, self.distribution_port = free_port(), free_port(), free_port()
        super().__init__()

    def command(self):
        return [self.SCRIPT]

    def start(self):
        nothing = os.path.join(self.directory, 'nothing')
        open(nothing, 'w').close()
        configuration = os.path.join(self.directory, 'rabbitmq.conf')
        with open(configuration, 'w') as file:
            file.write(f'listeners.tcp.1 = 127.0.0.1:{self.port}\ndisk_free_limit.absolute = 50MB\n')
        os.makedirs(os.path.join(self.directory, 'data'), exist_ok=True)
        self.environment = {
            'HOME': self.directory, 'ERL_EPMD_PORT': str(self.names_port), 'ERL_EPMD_ADDRESS': '127.0.0.1',
            'RABBITMQ_NODENAME': 'bench@localhost', 'RABBITMQ_DIST_PORT': str(self.distribution_port),
            'RABBITMQ_CONF_ENV_FILE': nothing, 'RABBITMQ_CONFIG_FILE': configuration,
            'RABBITMQ_ADVANCED_CONFIG_FILE': os.path.join(self.directory, 'none'),
            'RABBITMQ_MNESIA_BASE': os.path.join(self.directory, 'data'), 'RABBITMQ_LOG_BASE': self.directory,
            'RABBITMQ_ENABLED_PLUGINS_FILE': nothing, 'RABBITMQ_PID_FILE': os.path.join(self.directory, 'pid'),
            # Schedulers that wait must not spin, because client and server share the processors. The shell calls exec, so that
            # the process ID is that of the server.
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '+sbwt none +sbwtdcpu none +sbwtdio none', 'RUNNING_UNDER_SYSTEMD': 'true',
        }
        if self.names is None:
            self.names = subprocess.Popen(['epmd', '-port', str(self.names_port), '-address', '127.0.0.1'],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().start()

    def answers(self):
        return self.accepts(self.port)

    def stop(self):
        super().stop()
        if self.names is not None:
            self.names.terminate()
            self.names.wait()


class Postgres(Server):
    """A server with jobq for the runs that kill it."""
    OURS = ("shared_preload_libraries = 'jobq'", "listen_addresses = ''", 'fsync = on', 'max_connections = 100',
            'shared_buffers = 256MB', 'max_wal_size = 8GB', 'checkpoint_timeout = 1h')

    def __init__(self, synchronous_commit):
        self.synchronous_commit = synchronous_commit
        super().__init__()

    def command(self):
        return ['postgres', '-D', os.path.join(self.directory, 'data')]

    def start(self):
        data = os.path.join(self.directory, 'data')
        if not os.path.isdir(data):
            subprocess.run(['initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'],
                           check=True, capture_output=True)
            with open(os.path.join(data, 'postgresql.conf'), 'a') as file:
                file.write('\n'.join(self.OURS) + f"\nunix_socket_directories = '{self.directory}'\n"
                           f'synchronous_commit = {self.synchronous_commit}\n')
        super().start()

    def answers(self):
        return subprocess.run(['pg_isready', '-q', '-h', self.directory, '-p', '5432'], env=self.plain()).returncode == 0

    def plain(self):
        return {name: value for name, value in os.environ.items() if not name.startswith('PG')}

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(60)
        super().stop()
