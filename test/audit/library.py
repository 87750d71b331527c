"""Makes the modules of the Python package importable, because the audit uses the laws of `jobq audit`. Import this module first."""

import sys
from pathlib import Path

SOURCE = str(Path(__file__).resolve().parents[2] / "clients" / "python" / "src")
sys.path.insert(0, SOURCE)
