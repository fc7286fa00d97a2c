"""Where the generator's inputs are."""
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "third_party" / "cann" / "aclnn_ops.txt"
REGISTRY = ROOT / "codegen" / "ops.yaml"


def torch_folder() -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0])
