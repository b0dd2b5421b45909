"""Makes the frames client of the Python suite importable from here."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"

sys.path.insert(0, str(HERE.parent / "python"))
