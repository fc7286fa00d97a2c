"""The layers of the adapter and of softcann point one way, and nothing in the adapter knows the software CANN."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
SOFTCANN = ROOT / "third_party" / "softcann" / "src"
LAYERS = ["acl", "core", "memory", "op", "graph", "aten", "distributed", "profiler", "python", "published"]
SIDE_BY_SIDE = {"distributed", "profiler"}
SOFTCANN_LAYERS = ["fault", "rt", "op", "atb", "model", "comm", "transfer", "media", "ge", "companions"]
# Libraries above libascendcl, or groups of them.
SOFTCANN_SIDE_BY_SIDE = {"op", "atb", "model", "comm", "transfer", "media", "ge", "companions"}
SOFTCANN_ON_OP = {"atb", "model"}  # two of them stand on libopapi
SOFTCANN_STANDS_ON = {**dict.fromkeys(SOFTCANN_ON_OP, "op"), "transfer": "comm"}  # one has the sockets of libhccl


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cpp", ".def", ".inl"))


SOURCES = sources(CSRC)
SOFTCANN_SOURCES = sources(SOFTCANN)
INCLUDE = re.compile(r'#include\s+"(\w+)/')


def upward_includes(layer, text, layers=LAYERS, side_by_side=SIDE_BY_SIDE):
    """Layers that `text`, a file of `layer`, must not include but does."""
    side_by_side = side_by_side - {SOFTCANN_STANDS_ON.get(layer)}
    return [found for found in INCLUDE.findall(text)
            if found in layers and found != layer
            and (layers.index(found) > layers.index(layer) or {found, layer} <= side_by_side)]


def test_the_check_sees_an_upward_include():
    assert upward_includes("core", '#include "op/launch.h"\n#include "acl/runtime.h"') == ["op"]
    text = '#include "rt/runtime.h"\n#include "companions/cast.h"'
    assert upward_includes("comm", text, SOFTCANN_LAYERS, SOFTCANN_SIDE_BY_SIDE) == ["companions"]
    assert upward_includes("model", text + '\n#include "op/threads.h"', SOFTCANN_LAYERS, SOFTCANN_SIDE_BY_SIDE) == ["companions"]
    assert upward_includes("transfer", '#include "comm/socket.h"\n#include "ge/graph_impl.h"', SOFTCANN_LAYERS,
                           SOFTCANN_SIDE_BY_SIDE) == ["ge"]
    assert upward_includes("fault", text, SOFTCANN_LAYERS, SOFTCANN_SIDE_BY_SIDE) == ["rt", "companions"]


def test_every_folder_is_a_layer():
    assert {p.name for p in CSRC.iterdir() if p.is_dir()} == set(LAYERS)
    assert {p.name for p in SOFTCANN.iterdir() if p.is_dir()} == set(SOFTCANN_LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_point_down(path):
    parts = path.relative_to(CSRC).parts
    layer = parts[0] if len(parts) > 1 else "op"  # the public header shows what lies up to the op-runner
    assert upward_includes(layer, path.read_text()) == []


@pytest.mark.parametrize("path", SOFTCANN_SOURCES, ids=lambda p: str(p.relative_to(SOFTCANN)))
def test_includes_of_softcann_point_down(path):
    text = path.read_text()
    layer = path.relative_to(SOFTCANN).parts[0]
    assert upward_includes(layer, text, SOFTCANN_LAYERS, SOFTCANN_SIDE_BY_SIDE) == []
    torch = re.findall(r"#include\s+<(?:ATen|c10|torch)/", text)
    assert layer in {"op", *SOFTCANN_ON_OP} or not torch, "only libopapi and what stands on it are linked with torch"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_the_adapter_does_not_know_the_software_cann(path):
    assert "softcann" not in path.read_text().lower()


def test_only_the_options_read_the_environment():
    readers = [p for p in SOURCES if re.search(r"\bgetenv\s*\(", p.read_text())]
    assert [str(p.relative_to(CSRC)) for p in readers] == ["core/options.cpp"]
    readers = [p for p in SOFTCANN_SOURCES if re.search(r"\bgetenv\s*\(", p.read_text())]
    assert [str(p.relative_to(SOFTCANN)) for p in readers] == ["rt/base/options.cpp"]


def test_one_file_knows_torch_versions():
    knowing = {str(p.relative_to(CSRC)) for p in SOURCES if "TORCH_VERSION_M" in p.read_text()}
    assert knowing == {"core/compat.h"}


@pytest.mark.parametrize("folder", [CSRC, SOFTCANN.parent])
def test_every_source_is_in_a_source_list(folder):
    listed = {(lists.parent / name).resolve() for lists in folder.rglob("CMakeLists.txt")
              for name in re.findall(r"[\w/]+\.cpp", lists.read_text())}
    assert [str(p.relative_to(folder)) for p in sources(folder) if p.suffix == ".cpp" and p.resolve() not in listed] == []


def test_files_of_tests_have_different_names():
    """pytest imports them by their name alone."""
    names = [path.name for path in (ROOT / "test").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
