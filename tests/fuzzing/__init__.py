"""Random problems, an oracle of 100 digits, and the judgement of fits by it, for `tests/fuzz.py`."""

import sys
from pathlib import Path

# What is tested is the code beside these files, whatever is installed.
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
