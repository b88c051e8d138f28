"""The benchmarks are run from the root of the sources, and import each other from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
