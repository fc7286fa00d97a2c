"""The adapter's environment variables that only Python reads; the others are in core/options.def.

docs/environment.md has both. Nothing is imported here, so that the generator of that page can read it.
"""

from typing import Dict, Tuple

# name: (default, what it does)
MEANING: Dict[str, Tuple[str, str]] = {
    "ACL_DUMP_DATA": (
        "0", "1: dump what operators read and write from the start, as acl.json in the current folder says, or everything to "
        "npu_dump/<time>_<process>."),
}
