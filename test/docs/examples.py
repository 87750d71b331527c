"""Runs the examples on pages of the documentation, in the order of the page, and compares their output with the page.

    examples.py PAGE...         needs a throwaway server of its own with jobq preloaded (PGHOST, PGPORT, PGUSER), because it drops roles

page.py describes the comments that a page may contain. Each page begins in a new database. Varying parts are masked:

* leases, which are numbers with 11 or more digits: the lease on the page stands for the real one, also in later statements;
  timestamps; intervals with fractions of a second; process ids; the time for which the server has watched something
* the widths of columns, which depend on these
* a single empty result, such as that of a void function, need not be shown
* a query that only reads is repeated for 10 s, because the background worker may not have run yet
* a notification may arrive with any statement of its fence

A fence without a language that begins with a function is its signature, which is compared with the catalog. The pages with the real
output are written to the directory docs.found.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import page as pages

PATIENCE = 10          # seconds to wait for something that happens by itself
LONGEST = 60           # for any statement or program
LEASE = r"\d{11,}"
MASKS = [
    (re.compile(LEASE), "LEASE"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00"), "TIME"),
    (re.compile(r"-?\d\d:\d\d:\d\d\.\d+"), "INTERVAL"),
    (re.compile(r"(?<=PID )\d+|(?<=backend:)\d+"), "PID"),
    (re.compile(r"(?<=in the last )\d+ \w+"), "INTERVAL"),
    (re.compile(r"-{3,}"), "-"),
    (re.compile(r" +"), " "),
    (re.compile(r" ?\+ ?"), "+"),
    (re.compile(r"^ | $", re.MULTILINE), ""),
]
NOTIFICATION = re.compile(r"^Asynchronous notification .*\n?", re.MULTILINE)
# Functions that only read: those that are not VOLATILE, and these, which read more than their snapshot.
READERS = {"jobq_explain", "jobq_explain_queue", "jobq_access"}
NOT_VOLATILE = "SELECT DISTINCT proname FROM pg_proc WHERE proname LIKE 'jobq\\_%' AND provolatile <> 'v'"
EMPTY_ANSWER = re.compile(r"\A *\w+ *\n-+\n +\n*\Z")
# By the language of a fence: the ending of the file in which it is saved, and the command that runs the file.
PROGRAMS = {"bash": ("sh", "bash"), "python": ("py", sys.executable),
            "js": ("mjs", "node", "--preserve-symlinks", "--preserve-symlinks-main")}
PSQL = ["psql", "-XqP", "footer=off"]


def masked(output):
    if EMPTY_ANSWER.match(output):
        return ""
    pids = None
    lines = output.splitlines()
    for number, line in enumerate(lines):
        cells = line.split("|")
        if number == 0:
            pids = [column for column, name in enumerate(cells) if name.strip() in ("pid", "pids")]
        elif pids and len(cells) > pids[-1] and "-+-" not in line:
            for column in pids:
                cells[column] = " PID " if cells[column].strip() else ""
            lines[number] = "|".join(cells)
    output = "\n".join(lines)
    for pattern, word in MASKS:
        output = pattern.sub(word, output)
    return output.strip()


class Session:
    """A psql that executes one statement after the other."""

    def __init__(self, database):
        self.psql = subprocess.Popen([*PSQL, "-d", database], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, bufsize=1)

    def ask(self, text):
        self.psql.stdin.write(text.rstrip("\n") + "\n\\echo @@END\n")
        self.psql.stdin.flush()
        output = ""
        for line in self.psql.stdout:
            if line == "@@END\n":
                return output
            output += line
        raise RuntimeError("psql has ended: " + output)

    def end(self):
        self.psql.stdin.close()
        self.psql.wait()


def admin(*commands):
    subprocess.run(["psql", "-Xq", "-d", "postgres", "-v", "ON_ERROR_STOP=1",
                    *(word for command in commands for word in ("-c", command))],
                   check=True, env=os.environ | {"PGOPTIONS": "-c client_min_messages=error"})


def reset():
    admin("DROP DATABASE IF EXISTS docs WITH (FORCE)",
          "DO $$ DECLARE r regrole; BEGIN FOR r IN SELECT oid FROM pg_roles WHERE oid >= 16384 LOOP "
          "EXECUTE 'DROP ROLE ' || r; END LOOP; END $$",
          "CREATE DATABASE docs")


class Run:
    """The examples of one page."""

    def __init__(self, name, text, root):
        self.name, self.text, self.root = name, text, root
        self.passed, self.failed = 0, 0
        self.leases = {}        # lease on the page: real lease
        self.beside = []        # sessions that run concurrently with the next fence
        self.found = []         # differences: begin, end, real output
        self.session = None
        self.notifications = []
        self.directory = tempfile.mkdtemp()
        os.symlink(os.path.join(root, "examples"), os.path.join(self.directory, "examples"))
        modules = os.path.join(self.directory, "node_modules")
        os.mkdir(modules)
        os.symlink(os.path.join(root, "clients", "node"), os.path.join(modules, "jobq-client"))
        for directory in os.environ.get("NODE_PATH", "").split(":"):
            for package in glob.glob(os.path.join(directory, "*")):
                if not os.path.lexists(link := os.path.join(modules, os.path.basename(package))):
                    os.symlink(package, link)
        os.symlink(sys.executable, os.path.join(self.directory, "python3"))
        self.database = "docs"
        self.reset()

    def reset(self):
        if self.session:
            self.session.end()
        reset()
        self.session = Session(self.database)
        self.leases = {}
        self.silently(0, "CREATE EXTENSION jobq;")
        self.readers = READERS | set(self.values(NOT_VOLATILE))

    def result(self, line, problem=None):
        if problem is None:
            self.passed += 1
        else:
            self.failed += 1
            print(f"not ok - {self.name}:{line}: {problem}", flush=True)

    def silently(self, line, text):
        output = self.session.ask(text)
        if "ERROR:" in output:
            self.result(line, f"a statement that the examples need has failed:\n{text}\n{output}")

    def values(self, query):
        """Returns the rows of a query, one per line, without anything else."""
        return self.session.ask("\\pset tuples_only on\n\\pset format unaligned\n"
                                f"{query};\n\\pset tuples_only off\n\\pset format aligned").splitlines()

    def only_reads(self, statement):
        text = re.sub(r"'[^']*'", "", statement).strip().upper()
        functions = set(re.findall(r"\bjobq_\w+(?=\()", statement))
        return text.startswith("SELECT") and functions <= self.readers and "\\G" not in text and "FOR UPDATE" not in text

    def run(self):
        comments = {}
        for item in pages.items(self.text):
            if isinstance(item, pages.Comment):
                self.comment(item, comments)
            elif item.language != "text":
                self.fence(item, comments)
                comments = {}
            else:
                comments = {}
        self.session.end()
        admin("DROP DATABASE docs WITH (FORCE)")

    def comment(self, comment, comments):
        if comment.what == "reset":
            self.reset()
        elif comment.what == "run":
            self.silently(comment.line, comment.text)
        elif comment.what == "shell":
            subprocess.run(["bash", "-ec", comment.text], cwd=self.directory, env=self.environment(), check=True)
        elif comment.what == "background":
            psql = subprocess.Popen(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", self.database], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            psql.stdin.write(comment.text + "\n")
            psql.stdin.close()
            psql.stdin = None
            self.beside.append((comment.line, psql))
        else:
            comments[comment.what] = comment.text

    def fence(self, fence, comments):
        if "skip" in comments:
            self.result(fence.line, None if comments["skip"] else "skipped without a reason")
        elif fence.language in PROGRAMS:
            self.program(fence, comments.get("until"))
        elif fence.language == "sql":
            output = self.session.ask(fence.text)
            self.result(fence.line, f"fails:\n{output}" if "ERROR:" in output else None)
        elif (transcript := pages.statements(fence)) is not None:
            self.notifications = []
            for statement in transcript:
                self.statement(fence, statement)
            self.notified(fence)
        elif re.match(r"(CALL )?(jobq[_.]\w+)+\(", fence.text):
            self.signature(fence)
        else:
            self.result(fence.line, "a fence that is not an example: mark it or make it text")
        for line, psql in self.beside:
            try:
                output, _ = psql.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                psql.kill()
                output, _ = psql.communicate()
            if psql.returncode != 0:
                self.result(line, f"a concurrent statement has failed:\n{output}")
        self.beside = []
        # A transaction or a role ends with its fence.
        self.session.ask("ROLLBACK;")
        self.session.ask("RESET ROLE;")

    def statement(self, fence, statement):
        if statement.prompt == "$":
            came = self.command(statement.text.strip(), statement.shown)
        else:
            text = re.sub(LEASE, lambda lease: self.leases.get(lease[0], lease[0]), statement.text)
            came = self.heard(self.session.ask(text))
            statement.shown = NOTIFICATION.sub("", statement.shown)
            give_up = time.monotonic() + PATIENCE
            while masked(came) != masked(statement.shown) and self.only_reads(text) and time.monotonic() < give_up:
                time.sleep(0.05)
                came = self.heard(self.session.ask(text))
            shown = re.findall(LEASE, statement.shown)
            if len(shown) == len(re.findall(LEASE, came)):
                self.leases |= dict(zip(shown, re.findall(LEASE, came)))
        if masked(came) == masked(statement.shown):
            self.result(statement.line)
            return
        self.result(statement.line, f"{statement.text}---- the page shows:\n{statement.shown}---- what came:\n{came}----")
        came = came.rstrip("\n") + "\n" if came.strip() and not EMPTY_ANSWER.match(came) else ""
        gap = "\n" if statement.end < len(fence.text) and came else ""
        self.found.append((fence.begin + statement.begin, fence.begin + statement.end, came + gap))

    def heard(self, output):
        self.notifications += NOTIFICATION.findall(output)
        return NOTIFICATION.sub("", output)

    def notified(self, fence):
        shown = NOTIFICATION.findall(fence.text)
        give_up = time.monotonic() + PATIENCE
        while len(self.notifications) < len(shown) and time.monotonic() < give_up:
            time.sleep(0.05)
            self.heard(self.session.ask("SELECT WHERE false;"))
        if [masked(line) for line in self.notifications] != [masked(line) for line in shown]:
            self.result(fence.line, f"notifications: {self.notifications}, the page shows {shown}")

    def environment(self):
        return os.environ | {"PGDATABASE": self.database, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
                             "PYTHONPATH": os.path.join(self.root, "clients", "python", "src"),
                             "PATH": f"{self.directory}:{os.environ['PATH']}"}

    def command(self, text, shown):
        """Returns the output of a shell command. A command that still runs after the expected output is terminated."""
        path = os.path.join(self.directory, "output")
        with open(path, "w", encoding="utf-8") as output:
            program = subprocess.Popen(["bash", "-c", text], cwd=self.directory, env=self.environment(), stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        give_up = time.monotonic() + LONGEST
        with open(path, encoding="utf-8") as output:
            came = ""
            while time.monotonic() < give_up and program.poll() is None and masked(came) != masked(shown):
                time.sleep(0.05)
                came += output.read()
            self.end(program)
            return came + output.read()

    def program(self, fence, until):
        ending, *command = PROGRAMS[fence.language]
        name = "example." + ending
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(fence.text)
        program = subprocess.Popen([*command, name], cwd=self.directory, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        timer = time.monotonic() + LONGEST
        done = False
        while until and not done and time.monotonic() < timer and program.poll() is None:
            done = self.values(until) == ["t"]
            time.sleep(0.05)
        if not until:
            program.wait(LONGEST)
            done = program.returncode == 0
        self.end(program)
        self.result(fence.line, None if done else f"has not done its job:\n{program.stdout.read()}")

    @staticmethod
    def end(program):
        """Terminates a program and the processes that it has started, which are in their own process group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if program.poll() is None:
                os.killpg(program.pid, number)
                try:
                    program.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    pass

    def signature(self, fence):
        """Creates functions with the signatures on the page under another name and compares them."""
        for text in re.split(r"\n(?=\S)", fence.text.strip()):
            match = re.match(r"(CALL )?((?:jobq\.)?\w+)\((.*?)\)(?:\s*→\s*(.*))?\Z", text, re.DOTALL)
            procedure, name, arguments, result = match.groups()
            if re.search(r"\) *→", arguments):      # the greedier split, for arguments with parentheses
                arguments, result = re.split(r"\) *→", arguments, maxsplit=1)
            # If a page says "as" another function, the part is looked up there.
            if other := re.search(r"\.\.\. as (\w+)$", arguments):
                arguments = "".join(self.values(f"SELECT pg_get_function_arguments('{other[1]}'::regproc)"))
            if other := re.match(r"as (\w+)$", result or ""):
                result = "".join(self.values(f"SELECT pg_get_function_result('{other[1]}'::regproc)"))
            short = name.split(".")[-1]
            head = (f"PROCEDURE docs_made.{short}({arguments})" if procedure else
                    f"FUNCTION docs_made.{short}({arguments}) RETURNS {result}")
            came = self.values(
                "BEGIN; SET LOCAL check_function_bodies = off; CREATE SCHEMA docs_made;"
                f"CREATE {head} LANGUAGE sql AS '';\n"
                "SELECT pg_get_function_arguments(p.oid), pg_get_function_result(p.oid) FROM pg_proc p "
                f"WHERE p.oid IN ('docs_made.{short}'::regproc, '{name}'::regproc) ORDER BY p.oid;\n"
                "ROLLBACK")
            same = len(came) == 2 and came[0] == came[1].replace("docs_made.", "") and "ERROR" not in came[0]
            self.result(fence.line, None if same else f"not the signature of {name}:\n" + "\n".join(came))

    def corrected(self):
        text = self.text
        for begin, end, came in reversed(self.found):
            text = text[:begin] + came + text[end:]
        return text


def prepare():
    """The environment of all programs that are started; rejects a server that has other databases."""
    os.environ |= {"PGTZ": "UTC", "PSQLRC": "/dev/null", "PGOPTIONS": f"-c statement_timeout={LONGEST}s"}
    others = subprocess.run(["psql", "-XAtd", "postgres", "-c", "SELECT datname FROM pg_database WHERE datname NOT IN "
                             "('postgres', 'template0', 'template1', 'docs')"], check=True, capture_output=True, text=True).stdout
    if others:
        sys.exit("this server is in use; it has other databases: " + " ".join(others.split()))


def main():
    prepare()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    passed = failed = 0
    for name in sys.argv[1:]:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = file.read()
        if not pages.examples(text):
            continue
        run = Run(name, text, root)
        run.run()
        print(f"{name}: {run.passed} passed, {run.failed} failed", flush=True)
        passed, failed = passed + run.passed, failed + run.failed
        if run.found:
            path = os.path.join(root, "docs.found", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(run.corrected())
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
