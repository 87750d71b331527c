"""Builds the package as the registry needs it and checks that its modules can be imported from the package alone."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import setuptools.build_meta
    import wheel   # noqa: F401
except ImportError:
    setuptools = None

ROOT = Path(__file__).parent.parent
BUILD = "import setuptools.build_meta as build, sys; into = sys.argv[1]; build.build_wheel(into); build.build_sdist(into)"
TYPES = "import jobq, jobq.testing, sys; print(jobq.__file__, jobq.__version__, 'opentelemetry' in sys.modules)"


@unittest.skipIf(setuptools is None, "wheels cannot be built: apt-get install python3-setuptools python3-wheel")
class PackageTest(unittest.TestCase):
    def test_wheel(self):
        with tempfile.TemporaryDirectory() as directory:
            source, made, target = (Path(directory) / name for name in ("source", "made", "target"))
            shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests"))
            made.mkdir()
            subprocess.run([sys.executable, "-W", "ignore", "-c", BUILD, str(made)], cwd=source, check=True, capture_output=True)
            names = sorted(path.name for path in made.iterdir())
            self.assertRegex(" ".join(names), r"^jobq-[0-9.]+-py3-none-any\.whl jobq-[0-9.]+\.tar\.gz$")
            shutil.unpack_archive(made / names[0], target, "zip")
            self.assertTrue((target / "jobq" / "py.typed").exists())
            self.assertTrue(list(target.glob("jobq-*.dist-info/**/LICENSE")))
            environment = {**os.environ, "PYTHONPATH": str(target)}
            said = subprocess.run([sys.executable, "-c", TYPES], cwd=target, env=environment, check=True, capture_output=True, text=True)
            self.assertTrue(said.stdout.startswith(str(target.resolve())) or said.stdout.startswith(str(target)), said.stdout)


if __name__ == "__main__":
    unittest.main()
