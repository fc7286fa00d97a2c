"""The adapter's layers point one way, and nothing in it knows the software CANN."""
import pathlib
import re

import pytest

CSRC = pathlib.Path(__file__).resolve().parents[2] / "csrc"
LAYERS = ["acl", "core", "memory", "op", "graph", "aten", "distributed", "profiler", "python"]
SIDE_BY_SIDE = {"distributed", "profiler"}
SOURCES = sorted(p for p in CSRC.rglob("*") if p.suffix in (".h", ".cpp", ".def"))
INCLUDE = re.compile(r'#include\s+"(\w+)/')


def upward_includes(layer, text):
    """Layers that `text`, a file of `layer`, must not include but does."""
    return [found for found in INCLUDE.findall(text)
            if found in LAYERS and found != layer
            and (LAYERS.index(found) > LAYERS.index(layer) or {found, layer} == SIDE_BY_SIDE)]


def test_the_check_sees_an_upward_include():
    assert upward_includes("core", '#include "op/launch.h"\n#include "acl/runtime.h"') == ["op"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_point_down(path):
    parts = path.relative_to(CSRC).parts
    layer = parts[0] if len(parts) > 1 else "op"  # the public header shows what lies up to the op-runner
    assert upward_includes(layer, path.read_text()) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_the_adapter_does_not_know_the_software_cann(path):
    assert "softcann" not in path.read_text().lower()


def test_only_the_options_read_the_environment():
    readers = [p for p in SOURCES if re.search(r"\bgetenv\s*\(", p.read_text())]
    assert [str(p.relative_to(CSRC)) for p in readers] == ["core/options.cpp"]


def test_one_file_knows_torch_versions():
    knowing = {str(p.relative_to(CSRC)) for p in SOURCES if "TORCH_VERSION_M" in p.read_text()}
    assert knowing == {"core/compat.h"}


def test_every_source_is_in_a_source_list():
    lists = "\n".join(p.read_text() for p in CSRC.rglob("CMakeLists.txt"))
    missing = [str(p.relative_to(CSRC)) for p in SOURCES if p.suffix == ".cpp" and p.name not in lists]
    assert missing == []
