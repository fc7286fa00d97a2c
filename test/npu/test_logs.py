"""TORCH_NPU_LOGS: what the adapter says of itself."""
import logging
import re

import pytest

from torch_npu._debug import logs


@pytest.mark.parametrize("text, levels, unknown", [
    ("op,memory", {"op": logging.INFO, "memory": logging.INFO}, []), ("+hccl, -memory", {"hccl": logging.DEBUG, "memory": logging.ERROR}, []),
    ("all,-graph", {"": logging.INFO, "graph": logging.ERROR}, []), ("debug", {"": logging.DEBUG}, []), ("", {}, []),
    ("Op,much,+info", {"op": logging.INFO}, ["much", "+info"])])
def test_the_syntax(text, levels, unknown):
    assert logs.parse(text) == (levels, unknown)


def lines(python, code, logs, **environment):
    process = python(code, TORCH_NPU_LOGS=logs, **environment)
    assert process.returncode == 0, process.stderr
    return re.findall(r"^\[[\d\- :,]+\] \[\d+(?:, rank \d)?\] (\w+) torch_npu\.(\w+): (.*)$", process.stderr, re.M)


CODE = """if True:
    import torch, torch_npu, warnings
    warnings.simplefilter("ignore")
    x = torch.ones(1024, 1024, device="npu")
    (x + 1, x + 2)
    torch.linalg.eigvals(torch.eye(2, device="npu"))
    torch.npu.empty_cache()
    try:
        torch.mm(x, torch.ones(2, device="npu"))
    except RuntimeError:
        pass
    try:
        torch.empty(2**45, device="npu")
    except torch.OutOfMemoryError:
        pass
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x * 2
    graph.replay()
"""


def test_operators_memory_graphs_and_the_device(python):
    said = lines(python, CODE, "device,op,memory,graph")
    texts = {name: [text for _, other, text in said if other == name] for _, name, _ in said}
    assert set(texts) == {"device", "op", "memory", "graph"} and len(texts["device"]) == 1
    assert "because" in texts["device"][0] and "CANN" in texts["device"][0]
    adds = [text for text in texts["op"] if "aten.add.Tensor" in text]
    assert len(adds) == 1 and "self float32[1024, 1024] -> out float32[1024, 1024]; stream 0 of npu:0, <string>:5" in adds[0]
    assert any("linalg_eig" in text and "runs on the CPU" in text for text in texts["op"])
    assert [name for level, name, text in said if level == "ERROR" and "aten.mm.default failed" in text] == ["op"]
    assert any(re.search(r"npu:0: reserved 0\.0 -> [\d.]+ MiB", text) for text in texts["memory"])
    assert any("given back" in text for text in texts["memory"])
    assert any(level == "WARNING" and "memory of the NPU ran out" in text for level, _, text in said)
    assert [re.match("capture begins|captured", text) is not None for text in texts["graph"]] == [True, True]


def test_more_and_less_by_component(python):
    said = lines(python, CODE, "+op,+graph,-memory")
    assert len([text for _, name, text in said if name == "op" and "aten.add.Tensor" in text]) == 2
    assert any("replay" in text for _, name, text in said if name == "graph")
    assert not [name for _, name, _ in said if name in ("memory", "device")]


def test_collectives(python):
    said = lines(python, """if True:
        import os, torch, torch_npu, torch.distributed as dist
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        for _ in range(2):
            dist.all_reduce(torch.ones(3, device="npu"))
        dist.destroy_process_group()""", "hccl", RANK="0")
    texts = [text for _, name, text in said if name == "hccl"]
    assert any("rank 0 of 1" in text for text in texts)
    assert len([text for text in texts if "first c10d.allreduce_.default #0: tensors[0] float32[3]" in text]) == 1
    assert not any("#1" in text for text in texts)


def test_nothing_is_watched_where_nothing_is_asked_for(python):
    process = python("import sys, torch, torch_npu\nprint([name for name in sys.modules if name in "
                     "('torch_npu._debug.observe', 'torch_npu._debug.log_operators')])", TORCH_NPU_LOGS="graph,-op")
    assert process.stdout.strip() == "[]", process.stderr
