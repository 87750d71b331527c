"""Builds the package as the registry needs it, and checks its contents, and that its modules can be imported from the package alone."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

try:
    import build
    import setuptools
    import wheel   # noqa: F401
except ImportError:
    build = None

ROOT = Path(__file__).parent.parent
IMPORTS = "import jobq, jobq.testing, sys; print(jobq.__file__, jobq.__version__, 'opentelemetry' in sys.modules)"


@unittest.skipIf(build is None, "packages cannot be built: apt-get install python3-build python3-setuptools python3-wheel")
class PackageTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def build(self, name, umask):
        """Builds the packages from a copy of the sources, whose files have other times and modes, and returns their contents by name."""
        source, made = self.directory / f"{name} source", self.directory / name
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"), copy_function=shutil.copyfile)
        os.chmod(source / "build.sh", 0o755)
        made.mkdir()
        subprocess.run(["sh", "-c", f"umask {umask} && chmod -R u+rw,go-rwx src && exec ./build.sh \"$1\"", "sh", str(made)], cwd=source, check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"})
        return {path.name: path.read_bytes() for path in sorted(made.iterdir())}

    def test_the_packages(self):
        first = self.build("first", "022")
        names = list(first)
        self.assertRegex(" ".join(names), r"^jobq-[0-9.]+-py3-none-any\.whl jobq-[0-9.]+\.tar\.gz$")
        self.assertTrue(first == self.build("second", "077"), "two builds differ")
        with tarfile.open(self.directory / "first" / names[1]) as sdist:
            files = {name.partition("/")[2] for name in sdist.getnames()}
        self.assertLessEqual({"LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "src/jobq/py.typed", "src/jobq/worker.py"}, files)
        self.assertEqual({name.partition("/")[0] for name in files} - {""}, {"LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "setup.cfg", "src"})
        target = self.directory / "target"
        shutil.unpack_archive(self.directory / "first" / names[0], target, "zip")
        self.assertTrue((target / "jobq" / "py.typed").exists())
        self.assertTrue(list(target.glob("jobq-*.dist-info/**/LICENSE")))
        [metadata] = target.glob("jobq-*.dist-info/METADATA")
        for field in ("Name: jobq\n", "Author: the jobq authors\n", "License: PostgreSQL\n", "Requires-Python: >=3.9\n", "Requires-Dist: psycopg"):
            self.assertIn(field, metadata.read_text())
        environment = {**os.environ, "PYTHONPATH": str(target)}
        said = subprocess.run([sys.executable, "-c", IMPORTS], cwd=target, env=environment, check=True, capture_output=True, text=True)
        self.assertTrue(said.stdout.startswith(str(target.resolve())) or said.stdout.startswith(str(target)), said.stdout)


if __name__ == "__main__":
    unittest.main()
