"""The adapter's environment variables that only Python reads; the others are in core/options.def.

docs/environment.md has both. Nothing is imported here, so that the generator of that page can read it.
"""

from typing import Dict, Tuple

# name: (default, what it does)
MEANING: Dict[str, Tuple[str, str]] = {
    "ACL_DUMP_DATA": (
        "0", "1: dump what operators read and write from the start, as acl.json in the current folder says, or everything to "
        "npu_dump/<time>_<process>."),
    "TORCH_NPU_SANITIZER": (
        "0", "1: operators on different streams that use the same memory without an order between them are an error, with both "
        "stacks. Slow."),
    "TORCH_NPU_SHADOW": (
        "", "cpu: run each operator on the CPU beside the NPU; the first whose results differ beyond its dtype's tolerance is an "
        "error, and its inputs are saved with a script. Slow."),
    "TORCH_NPU_SHADOW_PATH": ("npu_shadow", "Folder for those inputs and scripts."),
}
