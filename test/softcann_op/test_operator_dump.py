"""Dumps of single operators: aclmdlInitDump, aclmdlSetDump, aclmdlFinalizeDump, aclInit's file, acldump*, as a client of CANN calls
them."""
import ctypes
import json
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

REPEATED, BAD_CONFIG, INVALID_FILE, PARSE_FILE, RUNNING, NOT_RUNNING, WRITE_FILE = 100002, 100009, 100003, 100006, 100044, 100045, 100004
PARAM, FAILURE = 100000, 500001


@pytest.fixture
def dump(call, tmp_path):
    """dump(work, **config) -> (index, folder): what a dump of `work` is."""
    def made(work, **config):
        start(call, tmp_path, **config)
        try:
            work()
            call.check(call.acl.aclrtSynchronizeStream(call.stream), "synchronize")
        finally:
            call.check(call.acl.aclmdlFinalizeDump(), "aclmdlFinalizeDump")
        return read(tmp_path / "dump")
    return made


def configuration(folder, **config):
    path = folder / "acl.json"
    part = {"dump_path": str(folder / "dump"), "dump_op_switch": "on", "dump_mode": "all", **config}
    path.write_text(json.dumps({"dump": {key: value for key, value in part.items() if value is not None}}))
    return str(path).encode()


def start(call, folder, **config):
    call.check(call.acl.aclmdlInitDump(), "aclmdlInitDump")
    code = call.acl.aclmdlSetDump(configuration(folder, **config))
    if code:
        text = call.acl.aclGetRecentErrMsg().decode()
        call.acl.aclmdlFinalizeDump()
        raise RuntimeError(f"{code}: {text}")


def read(folder):
    inner, = folder.iterdir()
    index = [json.loads(line) for line in (inner / "index.jsonl").read_text().splitlines()]
    return index, inner


def test_inputs_and_outputs_are_files_and_lines_of_the_index(dump, call):
    x, y, out = torch.arange(6.0).view(2, 3).t(), torch.full((3, 2), 2, dtype=torch.int64), torch.empty(3, 2)
    index, folder = dump(lambda: call("aclnnMul", x, y, out))
    assert [(line["kind"], line["name"]) for line in index] == [("input", "self"), ("input", "other"), ("output", "out")]
    first, second, result = index
    assert {line["operator"] for line in index} == {"aclnnMul"} and {line["serial"] for line in index} == {0}
    assert (first["dtype"], first["shape"], first["strides"], first["format"], first["device"]) == ("float32", [3, 2], [1, 3], "ND", "npu:0")
    assert second["dtype"] == "int64" and first["step"] == first["call"] == 0 and first["model"] is None
    for line, tensor in ((first, x), (second, y), (result, x * y)):
        kept = np.load(folder / line["file"])
        assert kept.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(kept, tensor.numpy())
    assert result["stats"] == {"min": 0.0, "max": 10.0, "mean": 5.0, "norm": pytest.approx((220) ** 0.5), "nan": 0, "inf": 0}


def test_what_is_overwritten_is_kept_as_it_was_before(dump, call):
    x = torch.ones(2)
    index, folder = dump(lambda: [call("aclnnInplaceMuls", x, 3.0) for _ in range(2)])
    kept = [(line["kind"], line["call"], np.load(folder / line["file"]).tolist()) for line in index]
    assert kept == [("input", 0, [1, 1]), ("output", 0, [3, 3]), ("input", 1, [3, 3]), ("output", 1, [9, 9])]


@pytest.mark.parametrize("dtype, kept", [(torch.bfloat16, np.float32), (torch.float16, np.float16), (torch.float8_e5m2, np.float32),
                                         (torch.bool, np.bool_), (torch.complex64, np.complex64), (torch.uint8, np.uint8)])
def test_dtypes(dump, call, dtype, kept):
    x = torch.tensor([0.0, 1.0, 1.5]).to(dtype)
    index, folder = dump(lambda: call("aclnnCat", [x, x], 0, torch.empty(6, dtype=dtype)))
    assert [line["name"] for line in index] == ["tensors[0]", "tensors[1]", "out"] and index[0]["dtype"] == str(dtype)[len("torch."):]
    values = np.load(folder / index[2]["file"])
    wide = x if dtype == torch.bool else x.to(torch.complex64 if dtype.is_complex else torch.float32)
    assert values.dtype == kept and values.tolist() == wide.tolist() * 2


def test_operators_mode_statistics_and_steps_are_chosen(dump, call):
    x, prof = torch.ones(3), call.acl
    prof.aclprofCreateStepInfo.restype = ctypes.c_void_p

    def work():
        for _ in range(4):
            step = ctypes.c_void_p(prof.aclprofCreateStepInfo())
            assert prof.aclprofGetStepTimestamp(step, 0, call.stream) == 0
            call("aclnnSin", x, torch.empty(3))
            call("aclnnCos", x, torch.empty(3))
            assert prof.aclprofGetStepTimestamp(step, 1, call.stream) == 0
            prof.aclprofDestroyStepInfo(step)
    index, folder = dump(work, dump_list=[{"layer": ["S?n", "aclnnNever"]}], dump_mode="output", dump_data="stats", dump_step="1|3-9",
                         dump_stats=["Max", "Nan"])
    assert [(line["operator"], line["step"], line["kind"], line["file"]) for line in index] == [
        ("aclnnSin", 1, "output", None), ("aclnnSin", 3, "output", None)]
    assert [path.name for path in folder.iterdir()] == ["index.jsonl"]
    assert set(index[0]["stats"]) == {"max", "nan"} and index[0]["stats"]["max"] == pytest.approx(float(torch.tensor(1.0).sin()))


def test_only_the_calls_with_overflow_or_nan(dump, call):
    x, out = torch.tensor([0.0, 1.0]), torch.empty(2)
    index, _ = dump(lambda: (call("aclnnExp", x, out), call("aclnnReciprocal", x, out), call("aclnnSin", x, out)),
                    dump_mode=None, dump_op_switch=None, dump_debug="on")
    assert [(line["operator"], line["kind"]) for line in index] == [("aclnnReciprocal", "input"), ("aclnnReciprocal", "output")]
    assert index[1]["stats"]["inf"] == 1


def test_operators_that_fail_are_dumped_with_what_they_read(dump, call):
    x, index_ = torch.ones(2, 2), torch.tensor([[5]])

    def work():
        call("aclnnSin", x, torch.empty(2, 2))
        with pytest.raises(RuntimeError):
            call("aclnnGather", x, 0, index_, torch.empty(1, 1))
            call.check(call.acl.aclrtSynchronizeStream(call.stream), "synchronize")
    found, folder = dump(work, dump_scene="lite_exception", dump_mode=None, dump_op_switch=None)
    assert {line["operator"] for line in found} == {"aclnnGather"} and {line["kind"] for line in found} == {"input"}
    assert np.load(folder / found[1]["file"]).tolist() == [[5]]


def test_the_line_of_python_is_told(dump, call):
    """Also of an operator that another thread computes."""
    x = torch.ones(1 << 20)   # long enough for the stream's worker
    index, _ = dump(lambda: (call("aclnnSin", torch.ones(2), torch.empty(2)), call("aclnnSin", x, torch.empty(1 << 20))), dump_mode="output")
    lines = [line["line"] for line in index]
    assert len(lines) == 2 and all(line.startswith(str(pathlib.Path(__file__).parent)) for line in lines), lines


class Saved(ctypes.Structure):
    """acldumpTensorInfo."""

    _fields_ = [("type", ctypes.c_int), ("bytes", ctypes.c_size_t), ("format", ctypes.c_int32), ("dtype", ctypes.c_int32), ("address", ctypes.c_void_p),
                ("address_type", ctypes.c_int), ("placement", ctypes.c_int), ("offset", ctypes.c_uint32), ("dims", ctypes.c_uint32),
                ("origin_dims", ctypes.c_uint32), ("shape", ctypes.c_uint64 * 25), ("origin_shape", ctypes.c_uint64 * 25)]


def test_a_client_saves_tensors_beside_its_failures(call, tmp_path):
    acl, place, room = call.acl, ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    values = np.array([0x3f80, 0x4000, 0x4040, 0x4080], np.uint16)   # 1 to 4 in bfloat16
    assert acl.aclrtMalloc(ctypes.byref(place), ctypes.c_size_t(8), 0) == 0
    assert acl.aclrtMemcpy(place, ctypes.c_size_t(8), values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(8), 1) == 0
    tensor = Saved(1, 8, 2, 27, place, 2, 0, 0, 2, 0, (2, 2))
    size = ctypes.c_size_t(1)

    def save(name, *of):
        return acl.acldumpSaveExceptionInfo(name, b"mine", (Saved * len(of))(*of), ctypes.c_size_t(len(of)))
    assert save(b"kernel", tensor) == FAILURE and "dump_scene" in acl.aclGetRecentErrMsg().decode()
    assert acl.acldumpGetExceptionInfoPath(room, ctypes.c_size_t(4096)) == FAILURE
    start(call, tmp_path, dump_scene="aic_err_brief_dump", dump_mode=None, dump_op_switch=None)
    try:
        assert acl.acldumpGetExceptionInfoPath(room, size) == PARAM and acl.acldumpGetExceptionInfoPath(room, ctypes.c_size_t(4096)) == 0
        assert save(b"kernels/kernel", tensor, Saved(0, 8, 2, 27, place, 2, 0, 0, 1, 0, (3,))) == 0
        for name, wrong in ((b"", tensor), (b"/etc/kernel", tensor), (b"a/../../b", tensor), (b"a", Saved(0, 0, 2, 27, place, 2)),
                            (b"a", Saved(0, 8, 2, 27, place, 0)), (b"a", Saved(0, 8, 2, 27, None, 2))):
            assert save(name, wrong) == PARAM, name
        assert save(b"a", Saved(0, 1 << 40, 2, 27, place, 2)) != 0    # beyond its memory
    finally:
        assert acl.aclmdlFinalizeDump() == 0 and acl.aclrtFree(place) == 0
    index, folder = read(tmp_path / "dump")
    assert str(folder) == room.value.decode()
    assert [(line["operator"], line["kind"], line["shape"], line["dtype"], line["tag"]) for line in index] == [
        ("kernels/kernel", "output", [2, 2], "bfloat16", "mine"), ("kernels/kernel", "input", [4], "bfloat16", "mine")]
    assert np.load(folder / index[0]["file"]).tolist() == [[1, 2], [3, 4]]


def test_no_single_operators_unless_asked_for(dump, call):
    index, _ = dump(lambda: call("aclnnSin", torch.ones(2), torch.empty(2)), dump_op_switch=None)
    assert index == []


@pytest.mark.parametrize("config, text", [
    ({"dump_mode": "some"}, "dump_mode=some: expected is one of input, output, all"), ({"dump_step": "3-1"}, "ends before it begins"),
    ({"dump_step": "x"}, "0|3-5|10"), ({"dumb": 1}, "'dumb' is not served; the keys are dump_path"), ({"dump_path": None}, "dump_path is missing"),
    ({"dump_stats": ["Max"]}, "only with dump_data=stats"), ({"dump_scene": "watcher"}, "SOFTCANN_CHECK=memory"),
    ({"dump_list": [{"opname_range": [{"begin": "a", "end": "b"}]}]}, "model_name has to say"),
    ({"dump_list": [{"model_name": "m", "opname_range": [{"begin": "a"}]}]}, "opname_range is a list of"),
    ({"dump_list": [{"opname_blacklist": [{"name": "a", "pos": ["3"]}]}]}, "a blacklist is a list of"),
    ({"dump_list": [{"watcher_nodes": ["a"]}]}, "watcher_nodes: memory is not watched here; SOFTCANN_CHECK=memory"),
    ({"dump_list": [{"dumb": []}]}, "'dumb' is not served so"), ({"dump_path": "/proc/nowhere"}, "/proc/nowhere cannot be written"),
    ({"dump_data": 3}, "a text is expected")])
def test_a_wrong_configuration_is_refused(call, tmp_path, config, text):
    with pytest.raises(RuntimeError) as error:
        start(call, tmp_path, **config)
    assert str(error.value).startswith(f"{BAD_CONFIG}: ") and text in str(error.value)
    call("aclnnSin", torch.ones(2), torch.empty(2))
    assert not (tmp_path / "dump").exists() or not list((tmp_path / "dump").iterdir())


@pytest.mark.parametrize("content, code, text", [
    ("{", PARSE_FILE, "line 1"), ("[]", PARSE_FILE, "no JSON object"), ("{\"a\": 1}", BAD_CONFIG, "has no \"dump\""),
    ("[" * 100, PARSE_FILE, "nested too deep"), ("{\n\"a\": tru}", PARSE_FILE, "line 2: a value is expected"), (None, INVALID_FILE, "cannot read")])
def test_a_wrong_file_is_refused(call, tmp_path, content, code, text):
    path = tmp_path / "acl.json"
    if content is not None:
        path.write_text(content)
    assert call.acl.aclmdlInitDump() == 0
    try:
        assert call.acl.aclmdlSetDump(str(path).encode()) == code and text in call.acl.aclGetRecentErrMsg().decode()
    finally:
        assert call.acl.aclmdlFinalizeDump() == 0


def test_the_order_of_calls(call, tmp_path):
    path = configuration(tmp_path)
    assert call.acl.aclmdlSetDump(path) == NOT_RUNNING and call.acl.aclmdlFinalizeDump() == NOT_RUNNING
    assert call.acl.aclmdlInitDump() == 0 and call.acl.aclmdlInitDump() == REPEATED
    assert call.acl.aclmdlSetDump(path) == 0 and call.acl.aclmdlInitDump() == RUNNING
    call.acl.acldumpGetPath.restype = ctypes.c_char_p
    assert call.acl.acldumpGetPath(4) == str(tmp_path / "dump").encode() and call.acl.acldumpGetPath(5) is None
    assert call.acl.aclmdlFinalizeDump() == 0 and call.acl.acldumpGetPath(4) is None


class Chunk(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 4096), ("length", ctypes.c_uint32), ("last", ctypes.c_uint32), ("offset", ctypes.c_int64),
                ("flag", ctypes.c_int32), ("data", ctypes.c_uint8 * 0)]


def test_a_client_takes_the_files_itself(call, tmp_path):
    files = {}

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Chunk), ctypes.c_int32)
    def take(chunk, length):
        header = chunk.contents
        assert length == ctypes.sizeof(Chunk) + header.length   # as the examples of CANN check
        data = ctypes.string_at(ctypes.addressof(header) + Chunk.data.offset, header.length)
        files.setdefault(pathlib.Path(header.name.decode()).name, []).append((header.offset, bool(header.last), data))
        return 0
    x = torch.randn(300_000)
    assert call.acl.acldumpRegCallback(None, 0) != 0 and call.acl.acldumpRegCallback(take, 0) == 0
    try:
        start(call, tmp_path, dump_mode="output")
        call("aclnnNeg", x, torch.empty(300_000))
        assert call.acl.aclmdlFinalizeDump() == 0
    finally:
        call.acl.acldumpUnregCallback()
    assert not (tmp_path / "dump").exists()
    name, = (name for name in files if name.endswith(".npy"))
    assert [(offset, last) for offset, last, _ in files[name]] == [(0, False), (1 << 20, True)]
    (tmp_path / name).write_bytes(b"".join(data for _, _, data in files[name]))
    np.testing.assert_array_equal(np.load(tmp_path / name), -x.numpy())
    line, = (json.loads(data) for _, _, data in files["index.jsonl"] if data)
    assert line["operator"] == "aclnnNeg" and line["file"].endswith(name)


def test_the_file_of_aclinit_asks_for_a_dump(libraries, tmp_path):
    configuration(tmp_path, dump_mode="output")
    code = f"""
import ctypes, sys
acl = ctypes.CDLL({str(libraries / "libascendcl.so")!r}, mode=ctypes.RTLD_GLOBAL)
assert acl.aclInit({str(tmp_path / "broken.json")!r}.encode()) == {PARSE_FILE}
assert acl.aclInit({str(tmp_path / "acl.json")!r}.encode()) == 0 and acl.aclmdlInitDump() == {RUNNING}
sys.path[:0] = [{str(pathlib.Path(__file__).parent)!r}]
import torch
from nn_client import Client
call = Client({str(libraries)!r})
call("aclnnNeg", torch.ones(2), torch.empty(2))
assert acl.aclFinalize() == 0
call("aclnnAbs", torch.ones(2), torch.empty(2))
"""
    (tmp_path / "broken.json").write_text("{")
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert done.returncode == 0, done.stdout
    index, _ = read(tmp_path / "dump")
    assert [line["operator"] for line in index] == ["aclnnNeg"]


def test_a_full_disk_ends_the_dump_and_says_so(call, tmp_path):
    start(call, tmp_path)
    try:
        inner, = (tmp_path / "dump").iterdir()
        (inner / "step_0").write_text("")     # so that no folder of that name can be made
        call("aclnnNeg", torch.ones(2), torch.empty(2))
        call("aclnnNeg", torch.ones(2), torch.empty(2))
    finally:
        code = call.acl.aclmdlFinalizeDump()
    assert code == WRITE_FILE and "the dump is not whole" in call.acl.aclGetRecentErrMsg().decode()


def test_two_threads_dump_at_once(dump, call):
    def work():
        assert call.acl.aclrtSetDevice(0) == 0
        for _ in range(20):
            call("aclnnNeg", torch.ones(4), torch.empty(4))

    def both():
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    index, folder = dump(both, dump_mode="output")
    assert sorted(line["call"] for line in index) == list(range(40)) == sorted(line["serial"] for line in index)
    assert all(np.load(folder / line["file"]).tolist() == [-1] * 4 for line in index)


def test_dumps_of_clients_can_be_compared(dump, call, tmp_path):
    """The index is that of torch_npu's own dumps."""
    compare = pytest.importorskip("torch_npu.compare")
    folders = []
    for scale in (1.0, 1.5):
        x = torch.ones(4)
        _, folder = dump(lambda x=x, scale=scale: (call("aclnnSin", x, torch.empty(4)), call("aclnnMuls", x, scale, torch.empty(4))))
        folders.append(folder.rename(tmp_path / f"dump_{scale}"))
    found = compare.compare(*map(str, folders))
    assert found.made.operator == "aclnnMuls" and found.made.max_abs == 0.5
