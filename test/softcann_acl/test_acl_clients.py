"""Programs that import acl: the example, and ascendfly, unmodified, where it is installed."""
import pytest
from acl_tools import ROOT, run_program

FLY = """
import sys
import numpy as np
import ascend
context = ascend.Context({0}).context_dict[0]
model = ascend.AscendModel(context, sys.argv[1])
x = np.arange(12, dtype=np.float32).reshape(4, 3)
model.feed_data({"x": ascend.AscendArray.clone(x, context=context)})
model.run()
print(model.tensor_names, np.array_equal(model.get_tensor_by_name("y").to_np, x @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1))
"""


def test_the_example(acl, tmp_path):
    pytest.importorskip("onnx", reason="softcann[atc] is not installed")
    done = run_program(tmp_path, ROOT / "examples/offline/infer.py", "--batch", "3", "--keep", tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("output [3, 10], largest difference from eager "), done.stderr
    assert (tmp_path / "net.om").exists()


def test_ascendfly(acl, fixed_model, tmp_path):
    pytest.importorskip("prettytable", reason="ascendfly's requirements are not installed")
    done = run_program(tmp_path, "-c", FLY, fixed_model)
    if "No module named 'ascend'" in done.stderr:
        pytest.skip("ascendfly is not installed")
    assert done.stdout.split("\n")[-2] == "{'input': ['x'], 'output': ['y']} True" and not done.stderr, done.stderr


RAY = """
from ray._private.accelerators.npu import NPUAcceleratorManager as npus
print(npus.get_current_node_num_accelerators(), npus.get_current_node_accelerator_type())
"""


def test_rays_detection(acl, tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTCANN_DEVICE_COUNT", "3")
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    done = run_program(tmp_path, "-c", RAY)
    if "No module named 'ray" in done.stderr:
        pytest.skip("ray is not installed")
    assert done.stdout.split("\n")[-2] == f"3 {acl.get_soc_name()}", done.stderr
