"""The C interface as the generator sees it: operator name -> parameters."""
import importlib.util
import pathlib
from typing import Dict


def load(path: pathlib.Path) -> Dict[str, "Operator"]:  # noqa: F821 - Operator is gen_aclnn's
    """All operators of aclnn_ops.txt by name. Its parser stands beside it, and is the only one."""
    spec = importlib.util.spec_from_file_location("gen_aclnn", path.parent / "gen_aclnn.py")
    parser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parser)
    return {op.name: op for op in parser.parse(path)}
