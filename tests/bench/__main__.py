"""python -m tests.bench [NAME...]: runs bench_NAME.py, or all but the long ones if no name is given."""

import importlib
import sys
from pathlib import Path

# by name only; screen and real_systems write docs/findings.md
LONG = ("training", "ablations", "screen", "real", "real_systems")
HERE = Path(__file__).parent
ALL = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))

for name in sys.argv[1:] or [n for n in ALL if n not in LONG]:
    if name not in ALL:
        sys.exit(f"no benchmark {name!r}: wanted one of {', '.join(ALL)}")
    importlib.import_module(f"tests.bench.bench_{name}").main()
