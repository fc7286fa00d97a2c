"""Dumps of operators: torch.npu.init_dump, set_dump, finalize_dump, and what reads them."""
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch


@pytest.fixture
def dump(tmp_path):
    """dump(function, **config) -> the index, a list of dicts; files are below tmp_path."""
    def run(function, folder="dump", **config):
        path = tmp_path / folder
        torch.npu.init_dump()
        try:
            torch.npu.set_dump({"dump_path": str(path), **config})
            function()
        finally:
            torch.npu.finalize_dump()
        return [json.loads(line) for line in (path / "index.jsonl").read_text().splitlines()]
    return run


def of(index, operator, kind=None, name=None):
    return [entry for entry in index if entry["operator"] == operator and kind in (None, entry["kind"]) and name in (None, entry["name"])]


def test_inputs_and_results_are_files_and_lines_of_the_index(dump, tmp_path):
    x, y = torch.arange(6.0, device="npu").view(2, 3).t(), torch.ones(3, 2, device="npu", dtype=torch.float64)
    index = dump(lambda: torch.add(x, y, alpha=2))
    assert [(entry["kind"], entry["name"]) for entry in index] == [("input", "self"), ("input", "other"), ("output", "out")]
    first, result = index[0], index[2]
    assert (first["operator"], first["call"], first["step"], first["dtype"], first["shape"], first["strides"], first["format"]) == (
        "aten.add.Tensor", 0, 0, "float32", [3, 2], [1, 3], "ND")
    assert result["dtype"] == "float64" and first["line"].startswith(__file__) and first["device"] == "npu:0"
    np.testing.assert_array_equal(np.load(tmp_path / "dump" / first["file"]), x.cpu().numpy())
    np.testing.assert_array_equal(np.load(tmp_path / "dump" / result["file"]), torch.add(x, y, alpha=2).cpu().numpy())
    assert result["stats"] == {"min": 2.0, "max": 7.0, "mean": 4.5, "norm": pytest.approx(11.7898, abs=1e-4), "nan": 0, "inf": 0}


def test_what_is_overwritten_is_kept_as_it_was_before(dump, tmp_path):
    x = torch.ones(2, device="npu")
    index = dump(lambda: x.mul_(3))
    before, after = of(index, "aten.mul_.Tensor", name="self")
    assert [np.load(tmp_path / "dump" / entry["file"]).tolist() for entry in (before, after)] == [[1, 1], [3, 3]]
    assert (before["kind"], after["kind"]) == ("input", "output") and len(of(index, "aten.mul_.Tensor", "output")) == 1


def test_backward_passes_and_other_threads_are_seen_with_the_line_of_the_forward_call(dump):
    x = torch.ones(2, 2, device="npu", requires_grad=True)

    def run():
        x.exp().sum().backward()
        thread = threading.Thread(target=lambda: x.detach().sinh())
        thread.start()
        thread.join()
    index = dump(run)
    backward = [entry for entry in index if entry["line"].endswith("(backward)")]
    assert backward and all(entry["line"].startswith(f"{__file__}:") for entry in backward if entry["operator"] == "aten.mul.Tensor")
    assert of(index, "aten.sinh.default") and of(index, "aten.sinh.default")[0]["line"].startswith(__file__)
    assert threading._profile_hook is None


def test_bfloat16_and_internal_formats(dump, tmp_path):
    x = torch.tensor([1.0, 1.0078125], device="npu", dtype=torch.bfloat16)
    index = dump(lambda: x + x)
    assert index[0]["dtype"] == "bfloat16" and np.load(tmp_path / "dump" / index[0]["file"]).tolist() == [1.0, 1.0078125]
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    try:
        import torch_npu

        cast = torch_npu.npu_format_cast(torch.arange(256.0, device="npu").half().view(16, 16), 29)
        index = dump(lambda: cast @ cast, "nz", dump_list=["mm"])
    finally:
        torch.npu.config.allow_internal_format = before
    assert index[0]["format"] == "FRACTAL_NZ"
    assert np.load(tmp_path / "nz" / index[0]["file"]).ravel().tolist() == list(range(256))


def test_list_mode_statistics_and_steps(dump, tmp_path):
    weight = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def run():
        for _ in range(4):
            weight.sin().sum().backward()
            weight.cos()
            optimizer.step()
            optimizer.zero_grad()
    index = dump(run, dump_list=["aten.sin*", "no_such"], dump_mode="output", dump_data="stats", dump_step="1|3-9000000000")
    assert [(entry["operator"], entry["step"], entry["kind"], entry["file"]) for entry in index] == [
        ("aten.sin.default", 1, "output", None), ("aten.sin.default", 3, "output", None)]
    assert os.listdir(tmp_path / "dump") == ["index.jsonl"] and index[0]["stats"]["max"] <= 1


def test_only_the_calls_with_nan(dump):
    x = torch.tensor([0.0, 1.0], device="npu")
    index = dump(lambda: (x + 1, x / 0, x - x), dump_only="nan")
    assert {entry["operator"] for entry in index} == {"aten.div.Tensor"} and {entry["kind"] for entry in index} == {"input", "output"}
    index = dump(lambda: (x + 1, x.reciprocal()), "second", dump_debug="on")
    assert {entry["operator"] for entry in index} == {"aten.reciprocal.default"}
    assert of(index, "aten.reciprocal.default", "output")[0]["stats"]["inf"] == 1


def test_a_run_on_the_cpu_and_a_configuration_in_a_file(tmp_path):
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path / "cpu"), "dump_op_switch": "on", "dump_device": "cpu",
                                           "dump_list": [{"layer": ["mul"]}]}}))
    torch.npu.init_dump()
    torch.npu.set_dump(str(config))
    torch.ones(2) * 2
    torch.ones(2, device="npu") * 2
    torch.npu.finalize_dump()
    index = (tmp_path / "cpu" / "index.jsonl").read_text().splitlines()
    assert [json.loads(line)["device"] for line in index] == ["cpu", "cpu"]


@pytest.mark.parametrize("config, error, message", [
    ({"dump_mode": "some"}, ValueError, "dump_mode='some'"), ({"dump_step": "x"}, ValueError, "0|3-5"), ({"dump_step": "5-3"}, ValueError, "0|3-5"),
    ({"dumb_path": "."}, ValueError, "no key 'dumb_path'"), ({"dump_level": "some"}, ValueError, "dump_level='some'"),
    ({"dump_level": "kernel", "dump_only": "nan"}, NotImplementedError, "dump_only=nan"),
    ({"dump_scene": "lite_exception"}, NotImplementedError, "dump_scene"), ({"dump_op_switch": "off"}, ValueError, "off"),
    ({"dump_list": [3]}, ValueError, "dump_list"), ({"dump_list": "aten.mm"}, ValueError, "a list of operators"),
    ({"dump_list": [{"layer": "Sin"}]}, ValueError, "a list of operators"), ({"dump": 5}, ValueError, "an object"),
    ({"dump_path": 5}, ValueError, "dump_path"), ({"dump_device": "gpu"}, ValueError, "dump_device")])
def test_a_wrong_configuration_is_an_error(config, error, message):
    torch.npu.init_dump()
    try:
        with pytest.raises(error, match=message.replace("|", r"\|")):
            torch.npu.set_dump(config)
    finally:
        torch.npu.finalize_dump()


@pytest.mark.parametrize("level, operators", [("kernel", ["aclnnAdd"]), ("all", ["aten.add.Tensor", "aclnnAdd"])])
def test_kernels_are_dumped_by_cann(tmp_path, level, operators):
    """In the same form with softcann, so that the same tools read it."""
    x = torch.ones(2, 3, device="npu")
    torch.npu.init_dump()
    torch.npu.set_dump({"dump_path": str(tmp_path / "dump"), "dump_level": level, "dump_mode": "output"})
    x + x
    torch.npu.finalize_dump()
    x - x
    found = []
    for index in sorted((tmp_path / "dump").rglob("index.jsonl"), key=lambda path: len(path.parts)):
        for line in map(json.loads, index.read_text().splitlines()):
            assert np.load(index.parent / line["file"]).tolist() == [[2.0] * 3] * 2
            found.append(line["operator"])
    assert found == operators


def test_the_level_follows_the_form_of_the_configuration(tmp_path):
    """CANN's form names CANN's operators, and asks for its dump as well; on every runtime."""
    for name, config in (("own", {"dump_data": "stats"}), ("canns", {"dump": {"dump_data": "stats", "dump_list": [{"layer": ["Sin"]}]}})):
        keys = config.get("dump", config)
        keys["dump_path"] = str(tmp_path / name)
        x = torch.ones(2, device="npu")
        torch.npu.init_dump()
        torch.npu.set_dump(config)
        x.sin(), x.cos()
        torch.npu.finalize_dump()
    assert not (tmp_path / "own" / "kernels").exists() and (tmp_path / "own" / "index.jsonl").read_text().count("aten.sin") == 2
    index, = (tmp_path / "canns" / "kernels").glob("*/index.jsonl")
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    assert {line["operator"] for line in lines} == {"aclnnSin"} and len(lines) == 2


def test_a_dump_of_kernels_has_the_operators_that_were_asked_for(tmp_path):
    x = torch.ones(2, device="npu")
    torch.npu.init_dump()
    torch.npu.set_dump({"dump_path": str(tmp_path), "dump_level": "kernel", "dump_list": ["Sin"], "dump_data": "stats"})
    x.sin(), x.cos(), x.sin()
    torch.npu.finalize_dump()
    index, = (tmp_path / "kernels").glob("*/index.jsonl")
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    assert [(line["operator"], line["kind"], line["file"]) for line in lines] == [
        ("aclnnSin", "input", None), ("aclnnSin", "output", None)] * 2
    assert all(line["line"].startswith(__file__) for line in lines), lines


@pytest.mark.parametrize("config", [{"dump_level": "kernel"}, {"dump_level": "all"}, {"dump": {}}])
def test_kernels_of_chosen_steps_alone_are_dumped(tmp_path, config):
    """In CANN's form, too, and by the optimizer's steps, which CANN does not know."""
    keys = config.get("dump", config)
    keys.update(dump_path=str(tmp_path), dump_step="1|3", dump_data="stats", dump_list=[] if "dump" in config else None)
    weight = torch.ones(3, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    torch.npu.init_dump()
    torch.npu.set_dump(config)
    for step in range(5):
        (weight.sigmoid() if step % 2 else weight.tanh()).sum().backward()
        optimizer.step()
    torch.npu.finalize_dump()
    for step in (1, 3):
        index, = (tmp_path / "kernels" / f"step_{step}").glob("*/index.jsonl")
        operators = [json.loads(line)["operator"] for line in index.read_text().splitlines()]
        assert "aclnnSigmoid" in operators and "aclnnTanh" not in operators, operators
    assert sorted(path.name for path in (tmp_path / "kernels").iterdir()) == ["step_1", "step_3"]
    if config.get("dump_level") != "kernel":
        steps = {json.loads(line)["step"] for line in (tmp_path / "index.jsonl").read_text().splitlines()}
        assert steps == {1, 3}


def test_the_order_of_calls_and_old_dumps(dump, tmp_path):
    with pytest.raises(RuntimeError, match="init_dump"):
        torch.npu.set_dump({})
    torch.npu.finalize_dump()  # ends nothing
    dump(lambda: None)
    with pytest.raises(FileExistsError, match="there is a dump already"):
        dump(lambda: None)


def test_a_full_disk_ends_the_dump_and_says_so(tmp_path):
    """A file system of 300 KiB, in a mount of the program's own."""
    full, program = tmp_path / "full", tmp_path / "program.py"
    full.mkdir()
    program.write_text(f"""
import torch, torch_npu
torch.npu.init_dump()
torch.npu.set_dump({{"dump_path": {str(full)!r}}})
x = torch.ones(64, 64, device="npu")
try:
    for _ in range(100):
        x + x
except OSError as error:
    print(error)
print((x + x)[0, 0].item())
torch.npu.finalize_dump()
""")
    command = f"mount -t tmpfs -o size=300k tmpfs {full} && {sys.executable} {program}; status=$?; cp -r {full}/. {tmp_path}/kept; exit $status"
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0 and f"the dump in {full} ends here, at aten.add.Tensor: No space left on device" in done.stdout, done
    assert done.stdout.splitlines()[-1] == "2.0"
    for line in (tmp_path / "kept" / "index.jsonl").read_text().splitlines()[:-1]:
        assert np.load(tmp_path / "kept" / json.loads(line)["file"]).shape == (64, 64)


def test_the_programs_own_modes_are_left_alone(tmp_path):
    from torch.utils.flop_counter import FlopCounterMode

    a = torch.ones(4, 4, device="npu")
    torch.npu.init_dump()
    with FlopCounterMode(display=False) as flops:
        torch.npu.set_dump({"dump_path": str(tmp_path / "dump")})
        a @ a
    a @ a
    torch.npu.finalize_dump()
    assert flops.get_total_flops() == 128
    assert (tmp_path / "dump" / "index.jsonl").read_text().count('"output"') == 2
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []


def test_old_scripts_switch_it_on_by_the_environment(python, tmp_path):
    process = python(f"import os, torch\nos.chdir({str(tmp_path)!r})\nimport torch_npu\n(torch.ones(2).npu() + 1).cpu()",
                     ACL_DUMP_DATA="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.returncode == 0, process.stderr
    index, = (tmp_path / "npu_dump").glob("*/index.jsonl")
    assert "aten.add.Tensor" in index.read_text()
    wrong = python("import torch, torch_npu", ACL_DUMP_DATA="yes", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert wrong.returncode != 0 and "ACL_DUMP_DATA=yes: expected 0 or 1" in wrong.stderr
