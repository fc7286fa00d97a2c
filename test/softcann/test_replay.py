"""SOFTCANN_RECORD and `python -m softcann replay`: what streams did is done again, and what differs is named."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
PYTHON = ROOT / "third_party" / "softcann" / "python"
sys.path.insert(0, str(PYTHON))

TRAINING = """
import torch, torch_npu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Dropout(0.5),
                            torch.nn.Linear(16, 4)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
side = torch.npu.Stream()
for step in range(2):
    x = torch.randn(5, 8, device="npu", dtype=torch.float32)
    target = torch.tensor([0, 1, 2, 3, 0]).npu()
    with torch.autocast("npu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x).float(), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    y = torch.stack([x, x * 2]).transpose(0, 1)[:, 1:].contiguous().to(torch.float16)
    y[y > 0] = 7
torch.npu.synchronize()
print(loss.item(), y.sum().item())
"""


def environment(**more):
    return {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "PYTHONPATH": str(PYTHON), **more}


def replay(*arguments, **more):
    return subprocess.run([sys.executable, "-m", "softcann", "replay", *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, env=environment(**more), timeout=300)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    pytest.importorskip("torch_npu")
    path = tmp_path_factory.mktemp("record") / "calls.rec"
    subprocess.run([sys.executable, "-c", TRAINING], check=True, stdout=subprocess.DEVNULL, env=environment(SOFTCANN_RECORD=str(path)))
    return path


def records(path):
    from softcann.replay import read

    return list(read(str(path)))


def operators(path):
    return [record for record in records(path) if record.fields["kind"] == "operator"]


def changed(path, number, to, **fields):
    """A copy of the record with one line changed."""
    with open(path, "rb") as source, open(to, "wb") as target:
        target.write(source.readline())
        for record in records(path):
            new = {**record.fields, **fields} if record.number == number else record.fields
            target.write(json.dumps(new).encode() + b"\n" + record.payload)
    return to


def test_every_operator_gives_what_it_gave(recorded):
    done = replay(recorded)
    count = len(operators(recorded))
    assert count > 60 and done.stdout == f"{count} operators: all results as recorded\n" and done.returncode == 0, done.stdout
    kinds = {record.fields["kind"] for record in records(recorded)}
    assert kinds == {"operator", "copy"} or kinds == {"operator", "copy", "fill"}


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex32"])
def test_dtypes_that_few_programs_have(tmp_path, dtype):
    pytest.importorskip("torch_npu")
    path = tmp_path / "calls.rec"
    program = f"import torch, torch_npu\nx = torch.arange(6.0, device='npu').to(torch.{dtype})\nassert x.float().sum() == 15"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(SOFTCANN_RECORD=str(path)))
    done = replay(path)
    assert done.returncode == 0 and "all results as recorded" in done.stdout and "0 operators" not in done.stdout, done.stdout
    shown = "".join(replay(path, "--stop-at", record.number).stdout for record in operators(path)[:2])   # one of them is the cast
    assert dtype in shown, shown


def test_the_first_other_result_is_named(recorded, tmp_path):
    relu = next(record for record in operators(recorded) if record.fields["op"] == "aclnnRelu")
    results = {place: "0" * 16 for place in relu.fields["results"]}
    path = changed(recorded, relu.number, tmp_path / "changed.rec", results=results)
    done = replay(path, "--save", tmp_path / "saved")
    assert done.returncode == 1 and f"#{relu.number} aclnnRelu (operator): out bfloat16[5, 16] has other bytes" in done.stdout, done.stdout
    assert "self: bfloat16[5, 16] min" in done.stdout
    numpy = pytest.importorskip("numpy")
    out = numpy.load(tmp_path / "saved" / f"{relu.number}.out.npy")
    assert out.shape == (5, 16) and (out >= 0).all()


def test_what_a_device_computes_otherwise_is_found(recorded):
    """A kernel that fails in the replay, by injection: the same record is named by both ways."""
    failing = next(record for record in operators(recorded) if record.fields["op"] == "aclnnRelu")
    done = replay(recorded, SOFTCANN_FAULT="task.aclnnRelu:nth=1:code=507035")
    assert done.returncode == 1 and f"#{failing.number} aclnnRelu (operator): aclnnRelu fails with" in done.stdout, done.stdout


def test_bisecting_finds_it_in_processes_of_its_own(recorded, tmp_path):
    from softcann.replay import bisect

    every = records(recorded)
    assert bisect("", every, lambda path, number: True) is None and bisect("", []) is None
    for bad in (every[0], every[-1], every[len(every) // 3]):
        tries = []
        found = bisect("", every, lambda path, number: tries.append(number) or number < bad.number)
        assert found == bad and len(tries) <= len(every).bit_length() + 2
    norm = next(record for record in operators(recorded) if "LayerNorm" in record.fields["op"])
    short = tmp_path / "short.rec"
    changed(recorded, norm.number, short, results={place: "0" * 16 for place in norm.fields["results"]})
    done = replay(short, "--bisect")
    assert done.returncode == 1 and f"not as it was: #{norm.number} {norm.fields['op']}" in done.stdout, done.stdout


def test_stopping_shows_the_operator(recorded):
    mm = next(record for record in operators(recorded) if record.fields["op"] == "aclnnRelu")
    done = replay(recorded, "--stop-at", mm.number)
    assert done.returncode == 0
    before = sum(record.number <= mm.number for record in operators(recorded))
    assert done.stdout.splitlines()[-1] == f"{before} operators: all results as recorded"
    assert f"#{mm.number} aclnnRelu (operator)" in done.stdout and "out: bfloat16[5, 16] min 0 max" in done.stdout
    listed = replay(recorded, "--list").stdout.splitlines()
    assert len(listed) == len(records(recorded)) and listed[mm.number].startswith(f"#{mm.number} aclnnRelu")


def test_files_that_are_none_or_cut(recorded, tmp_path):
    for name, content in (("text", b"hello\n"), ("json", b"{}\n"), ("damaged", recorded.read_bytes().split(b"\n")[0] + b"\n{]\n")):
        (tmp_path / name).write_bytes(content)
        done = replay(tmp_path / name)
        assert done.returncode == 2 and str(tmp_path / name) in done.stdout, done.stdout
    assert replay(tmp_path / "missing").returncode == 2
    whole = recorded.read_bytes()
    (tmp_path / "cut").write_bytes(whole[:len(whole) * 2 // 3])
    assert 0 < len(records(tmp_path / "cut")) < len(records(recorded))
    assert replay(tmp_path / "cut").returncode == 0


def test_a_file_that_cannot_be_written_stops_no_program(tmp_path):
    pytest.importorskip("torch_npu")
    program = "import torch; print((torch.ones(2, device='npu') + 1).tolist())"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          env=environment(SOFTCANN_RECORD=str(tmp_path / "missing" / "file")))
    assert done.stdout == "[2.0, 2.0]\n" and done.stderr.count("SOFTCANN_RECORD ends here") == 1, done.stderr


COLLECTIVE = """
import os, sys
import torch, torch_npu
import torch.distributed as dist
rank = int(sys.argv[1])
torch.npu.set_device(rank)
dist.init_process_group("hccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
x = torch.full((3,), rank + 1.0, device="npu")
dist.all_reduce(x)
print((x * 2).tolist())
dist.destroy_process_group()
"""


def test_one_rank_is_replayed_without_the_others(tmp_path):
    pytest.importorskip("torch_npu")
    ranks = [subprocess.Popen([sys.executable, "-c", COLLECTIVE, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE,
                              universal_newlines=True,
                              env=environment(SOFTCANN_RECORD=str(tmp_path / f"{rank}.rec"), SOFTCANN_DEVICE_COUNT="2"))
             for rank in range(2)]
    assert [process.communicate(timeout=120)[0] for process in ranks] == ["[6.0, 6.0, 6.0]\n"] * 2
    for rank in range(2):
        assert any(record.fields["kind"] == "outside" and record.fields["entry"] == "HcclAllReduce" for record in records(tmp_path / f"{rank}.rec"))
        done = replay(tmp_path / f"{rank}.rec", SOFTCANN_DEVICE_COUNT="2")
        assert done.returncode == 0 and "all results as recorded" in done.stdout, done.stdout
