"""All benchmarks, one after another: `python -m benchmarks`."""

from __future__ import annotations

import sys

from benchmarks import command, compare, distort, fleet, hunt, pool, reading, search, studio

if __name__ == "__main__":
    for module in (hunt, command, search, distort, fleet, compare, reading, pool, studio):
        print(f"\n{(module.__doc__ or '').splitlines()[0]}", flush=True)
        sys.argv = [module.__name__]
        module.main()
