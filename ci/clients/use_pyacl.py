"""Libraries that import acl, unmodified: ascendfly's models, and ray, which counts NPUs by it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness import case, main, run

TESTS = Path(__file__).resolve().parents[2] / "test/softcann_acl/test_acl_clients.py"


@case("ascendfly: a model's inference; ray: which NPUs there are")
def libraries() -> None:
    told = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS))
    assert re.search(r"^3 passed in", told, re.M), told   # those that are not installed would be skipped


if __name__ == "__main__":
    main("ascendfly", "ray")
