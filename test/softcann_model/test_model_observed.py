"""What others are told of a model's operators: dumps, subscriptions to its profile, msprof's records."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from model_client import ROOT, Error, Loaded
from om_writer import om, operator
from test_runtime_models import linear_model

REPEATED, INVALID_PARAM, LOST = 148046, 100000, 500005
NO_MODEL = 0xffffffff


@pytest.fixture
def model(acl, tmp_path):
    weight, bias = torch.randn(5, 3), torch.randn(5)
    made = Loaded(acl, linear_model(weight, bias))
    made.weight, made.bias = weight, bias
    yield made
    acl.aclmdlUnload(made.id)


def dumped(acl, folder, work, **config):
    (folder / "acl.json").write_text(json.dumps({"dump": {"dump_path": str(folder / "dump"), "dump_mode": "all", **config}}))
    acl.aclmdlInitDump()
    try:
        acl.aclmdlSetDump(str(folder / "acl.json").encode())
        work()
    finally:
        acl.aclmdlFinalizeDump()
    inner, = (folder / "dump").iterdir()
    return [json.loads(line) for line in (inner / "index.jsonl").read_text().splitlines()], inner


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_models_operators_are_dumped(acl, model, tmp_path, asynchronous):
    x = torch.randn(4, 3)
    index, folder = dumped(acl, tmp_path, lambda: model(x, asynchronous=asynchronous))
    named = {(line["operator"], line["kind"], line["name"]): line for line in index}
    first, second = (name for name in dict.fromkeys(line["operator"] for line in index))
    wanted = {(first, "input", "input"): x, (first, "input", "weight"): model.weight, (first, "input", "bias"): model.bias,
              (first, "output", "0"): F.linear(x, model.weight, model.bias),
              (second, "output", "0"): F.softmax(F.linear(x, model.weight, model.bias), -1)}
    for key, value in wanted.items():
        torch.testing.assert_close(torch.from_numpy(np.load(folder / named[key]["file"])), value)
    assert {line["model"] for line in index} and {line["step"] for line in index} == {0}


def test_models_layers_and_runs_are_chosen(acl, model, tmp_path):
    def work():
        for _ in range(4):
            model(torch.randn(4, 3))
    index, _ = dumped(acl, tmp_path, work, dump_list=[{"model_name": "*", "layer": ["linear_0"]}], dump_mode="output", dump_step="1|3")
    assert [(line["operator"], line["step"]) for line in index] == [("linear_0", 1), ("linear_0", 3)]
    (tmp_path / "other").mkdir()
    index, _ = dumped(acl, tmp_path / "other", work, dump_list=[{"model_name": "of another name"}])
    assert index == []


def test_ranges_and_blacklists_of_a_models_operators(acl, model, tmp_path):
    def kept(**listed):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        index, _ = dumped(acl, folder, lambda: [model(torch.randn(4, 3)) for _ in range(2)], dump_list=[listed], dump_data="stats")
        return [(line["operator"], line["name"]) for line in index if line["step"] == 1]
    every = kept(model_name="*")
    first, last = every[0][0], every[-1][0]
    whole = [one for one in every if one[0] == first]
    assert first != last and len(whole) == 4                                                  # input, weight, bias, 0
    assert kept(model_name="*", opname_range=[{"begin": first, "end": first}]) == whole
    assert kept(model_name="*", opname_range=[{"begin": first, "end": last}]) == every
    assert kept(model_name="*", opname_range=[{"begin": last, "end": first}]) == [one for one in every if one[0] == last]
    assert kept(model_name="*", opname_range=[{"begin": last, "end": last}], layer=[first]) == every
    left = [{"name": first, "pos": ["input1", "output0"]}, {"name": last, "pos": []}, {"name": "", "pos": ["input0"]}]
    without = [one for one in every if one not in (whole[1], whole[3])]
    assert kept(model_name="*", opname_blacklist=left) == kept(opname_blacklist=left) == without
    assert kept(model_name="another", opname_blacklist=left) == []
    assert kept(layer=[first]) == whole                                                        # of every model


def test_an_operator_of_a_model_that_fails_is_dumped_with_what_it_read(acl, tmp_path):
    gather = Loaded(acl, gather_model())
    try:
        def work():
            gather(torch.ones(3, 2), torch.tensor([1, 2]))
            with pytest.raises(Error):
                gather(torch.ones(3, 2), torch.tensor([1, 7]))
        index, folder = dumped(acl, tmp_path, work, dump_scene="lite_exception")
        assert {line["kind"] for line in index} == {"input"} and {line["model"] for line in index} == {index[0]["model"]} != {None}
        assert [1, 7] in [np.load(folder / line["file"]).tolist() for line in index]
        (tmp_path / "whole").mkdir()                       # a dump of everything has what the one that failed read, too
        index, folder = dumped(acl, tmp_path / "whole", work, dump_mode="input")
        assert [np.load(folder / line["file"]).tolist() for line in index if line["dtype"].startswith("int")][-1] == [1, 7]
    finally:
        acl.aclmdlUnload(gather.id)


def gather_model():
    return om([dict(inputs=["v0 x float32 ND 3,2", "v1 places int64 ND 2"], outputs=["v2 y float32 ND 2,2"],
                    ops=[operator("aten::index_select", ["t:v0", "i:0", "t:v1"], ["v2"], ["v0", "v1"])], workspace_bytes=4096)])


class Subscription:
    """A subscription to the operators of a model, and a thread that reads them."""

    def __init__(self, acl, model, times=1):
        self.acl, self.model = acl, model
        acl.lib.aclprofCreateSubscribeConfig.restype = ctypes.c_void_p
        acl.plain.add("aclprofCreateSubscribeConfig")
        self.reader, self.writer = os.pipe()
        self.config = acl.aclprofCreateSubscribeConfig(times, 0, ctypes.byref(ctypes.c_int(self.writer)))
        acl.aclprofModelSubscribe(model, self.config)
        self.data = b""
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while chunk := os.read(self.reader, 1 << 16):
            self.data += chunk

    def end(self):
        try:
            self.acl.aclprofModelUnSubscribe(self.model)
        finally:
            os.close(self.writer)
            self.thread.join()
            os.close(self.reader)
            self.acl.aclprofDestroySubscribeConfig(self.config)
        return self.operators()

    def operators(self):
        lib, size, count = self.acl.lib, ctypes.c_size_t(), ctypes.c_uint32()
        for name in ("aclprofGetOpStart", "aclprofGetOpEnd", "aclprofGetOpDuration"):
            getattr(lib, name).restype = ctypes.c_uint64
        lib.aclprofGetModelId.restype, lib.aclprofGetOpAttriValue.restype = ctypes.c_size_t, ctypes.c_char_p
        self.acl.aclprofGetOpDescSize(ctypes.byref(size))
        length = ctypes.c_size_t(len(self.data))
        assert len(self.data) % size.value == 0
        if not self.data:
            return []
        self.acl.aclprofGetOpNum(self.data, len(self.data), ctypes.byref(count))
        found = []
        for index in range(count.value):
            place, texts = (self.data, length, ctypes.c_uint32(index)), []
            for kind in ("Type", "Name"):
                assert getattr(lib, f"aclprofGetOp{kind}Len")(*place, ctypes.byref(size)) == 0
                room = ctypes.create_string_buffer(size.value)
                assert getattr(lib, f"aclprofGetOp{kind}")(*place, room, ctypes.c_size_t(size.value - 1)) == INVALID_PARAM
                assert getattr(lib, f"aclprofGetOp{kind}")(*place, room, size) == 0
                texts.append(room.value.decode())
            begin, end = lib.aclprofGetOpStart(*place), lib.aclprofGetOpEnd(*place)
            assert lib.aclprofGetOpDuration(*place) == end - begin and lib.aclprofGetOpFlag(*place) == 0
            assert int(lib.aclprofGetOpAttriValue(*place, 0)) > 0 and lib.aclprofGetOpAttriValue(*place, 1) is None
            found.append((*texts, begin, end, lib.aclprofGetModelId(*place)))
        assert lib.aclprofGetOpTypeLen(self.data, length, count, ctypes.byref(size)) == INVALID_PARAM   # one behind the last
        return found


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_subscriber_is_told_each_operator_of_the_model(acl, model, asynchronous):
    subscription = Subscription(acl, model.id)
    with pytest.raises(Error) as error:
        acl.aclprofModelSubscribe(model.id, subscription.config)
    assert error.value.code == REPEATED
    for _ in range(3):
        model(torch.randn(4, 3), asynchronous=asynchronous)
    found = subscription.end()
    assert [name for _, name, *_ in found] == [name for _, name, *_ in found[:2]] * 3 and len(found) == 6
    assert found[0][1] == "linear_0" and {number for *_, number in found} == {model.id}
    times = [time for _, _, begin, end, _ in found for time in (begin, end)]
    assert times == sorted(times) and times[0] > 0
    model(torch.randn(4, 3))
    with pytest.raises(Error, match="has no subscription"):
        acl.aclprofModelUnSubscribe(model.id)
    with pytest.raises(Error, match="there is no model"):
        acl.aclprofModelSubscribe(4711, subscription.config)


def test_without_times(acl, model):
    subscription = Subscription(acl, model.id, times=0)
    model(torch.randn(4, 3))
    assert [(begin, end) for _, _, begin, end, _ in subscription.end()] == [(0, 0)] * 2


def test_operators_that_are_called_one_by_one_have_a_number_too(acl):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "softcann_op"))
    from nn_client import Client

    call = Client(pathlib.Path(os.environ.get("TEST_LIBRARIES", ROOT / "torch_npu" / "softcann" / "lib")))
    device, size = ctypes.c_void_p(acl.malloc(64)), ctypes.c_int64(16)
    tensor = ctypes.c_void_p(call.lib.aclCreateTensor(ctypes.byref(size), ctypes.c_uint64(1), 0, ctypes.byref(ctypes.c_int64(1)),
                                                      ctypes.c_int64(0), 2, ctypes.byref(size), ctypes.c_uint64(1), device))
    acl.aclrtMemset(device.value, 64, 0, 64)
    subscription = Subscription(acl, NO_MODEL)
    workspace, executor = ctypes.c_uint64(), ctypes.c_void_p()
    assert call.lib.aclnnAbsGetWorkspaceSize(tensor, tensor, ctypes.byref(workspace), ctypes.byref(executor)) == 0
    assert call.lib.aclnnAbs(None, ctypes.c_uint64(0), executor, acl.stream) == 0
    acl.aclrtSynchronizeStream(acl.stream)
    (kind, name, begin, end, number), = subscription.end()
    assert (kind, name, number) == ("Abs", "aclnnAbs", NO_MODEL) and 0 < begin <= end


def test_a_pipe_that_nobody_reads_stops_nothing(acl, model):
    reader, writer = os.pipe()
    acl.lib.aclprofCreateSubscribeConfig.restype = ctypes.c_void_p
    acl.plain.add("aclprofCreateSubscribeConfig")
    config = acl.aclprofCreateSubscribeConfig(1, 0, ctypes.byref(ctypes.c_int(writer)))
    acl.aclprofModelSubscribe(model.id, config)
    for _ in range(200):            # some 140 KB, a pipe takes 64
        model(torch.randn(4, 3))
    os.close(reader)
    with pytest.raises(Error, match="operators were lost: Broken pipe") as error:
        acl.aclprofModelUnSubscribe(model.id)
    assert error.value.code == LOST
    os.close(writer)


def test_msprof_has_the_operators_of_models(tmp_path):
    (tmp_path / "tiny.om").write_bytes(linear_model(torch.randn(5, 3), torch.randn(5)))
    code = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import torch
from model_client import Acl, Loaded
model = Loaded(Acl(), {str(tmp_path / "tiny.om")!r})
model(torch.randn(4, 3)), model(torch.randn(4, 3), asynchronous=True)
"""
    subprocess.run([sys.executable, str(ROOT / "bin" / "msprof"), f"--output={tmp_path / 'out'}", sys.executable, "-c", code],
                   check=True, stdout=subprocess.DEVNULL)
    import csv

    table, = (tmp_path / "out").glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv")
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Op Name"] for row in rows[:2]] == [row["Op Name"] for row in rows[2:]] and len(rows) == 4
    assert rows[0]["Op Name"] == "linear_0" and {row["Model ID"] for row in rows} == {"1"}
    assert all(float(row["Task Duration(us)"]) > 0 for row in rows)
