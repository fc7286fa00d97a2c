"""How much memory a loaded model takes: its weights and what was planned for activations, and little more."""
import sys

import numpy as np
import pytest
from acl_tools import PACKAGES, run_program

MEASURE = """
import ctypes, os, sys
import acl
import torch
from softcann.bench import Session

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

assert acl.init() == 0 and acl.rt.set_device(0) == 0
torch.set_num_threads(1)
for turn in range(2):   # the first brings along what a process needs once: pages of libraries, oneDNN's kernels
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    session = Session(sys.argv[1])
    for _ in range(3):
        session.run()
    took = resident() - before
    session.unload()
work, weights, ret = acl.mdl.query_size(sys.argv[1])
assert ret == 0
print(took, work, weights)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Convolutions each of whose results has another size: 30 MB together, 11 MB of them at a time."""
    onnx = pytest.importorskip("onnx", reason="softcann[atc] is not installed")
    sys.path.insert(0, str(PACKAGES))
    from softcann import atc

    folder, size, channels = tmp_path_factory.mktemp("memory"), 160, [4, 56, 48, 40, 34, 28, 24, 20, 16, 8]
    nodes, weights = [], []
    for index, (inner, outer) in enumerate(zip(channels, channels[1:])):
        weights.append(onnx.numpy_helper.from_array(np.full((outer, inner, 3, 3), 0.01, np.float32), f"w{index}"))
        nodes += [onnx.helper.make_node("Conv", [f"x{index}", f"w{index}"], [f"c{index}"], pads=[1, 1, 1, 1]),
                  onnx.helper.make_node("Sin", [f"c{index}"], [f"x{index + 1}"])]
    nodes.append(onnx.helper.make_node("GlobalAveragePool", [f"x{len(channels) - 1}"], ["pooled"]))
    graph = onnx.helper.make_graph(
        nodes, "network", [onnx.helper.make_tensor_value_info("x0", 1, [1, channels[0], size, size])],
        [onnx.helper.make_tensor_value_info("pooled", 1, [1, channels[-1], 1, 1])], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return {mode: atc.convert(folder / "m.onnx", folder / mode, precision_mode_v2=mode) for mode in ("origin", "fp16")}


@pytest.mark.parametrize("precision", ["origin", "fp16"])
def test_activations_take_what_was_planned(network, precision, tmp_path):
    """In half precision too, whose sums are made in float32."""
    (tmp_path / "measure.py").write_text(MEASURE)
    done = run_program(tmp_path, "measure.py", network[precision])
    assert done.returncode == 0, done.stderr
    took, work, weights = map(int, done.stdout.split())
    allowance = 2 << 20   # the program, Python's buffers
    assert took <= 1.2 * (work + weights) + allowance, (took, work, weights)
    assert took >= work // 2   # it did compute there
