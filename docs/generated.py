"""What the generators in this folder share: the part of a file between two markers, and --check."""
import pathlib
import runpy
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]


def custom_operators():
    """The entries of codegen/custom_ops.yaml; then, of the others, {"op": schema, "composed": whether it has a gradient}."""
    entries = yaml.safe_load((ROOT / "codegen" / "custom_ops.yaml").read_text())
    folder = ROOT / "torch_npu" / "_ops"
    for name, variable in (("composed.py", "DIFFERENTIABLE"), ("composed_without_gradient.py", "OTHERS")):
        entries += [{"op": schema, "composed": variable == "DIFFERENTIABLE"} for schema in runpy.run_path(str(folder / name))[variable]]
    return entries


def replace_between(path, text, begin, end, new):
    """The text of the file at ``path`` with ``new`` as the lines between the markers."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path.name} has no '{begin}' ... '{end}'")
    return f"{before}{begin}\n{new}\n{end}{after}"


def write(path, text):
    """Writes the file where its text changes. With --check on the command line it stays, and a change is an error."""
    if path.exists() and path.read_text() == text:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"{path.name} is not up to date: python docs/{sys.argv[0].rpartition('/')[2]}")
    path.write_text(text)
