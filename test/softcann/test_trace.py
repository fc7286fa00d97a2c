"""SOFTCANN_TRACE's lines of launches, and python -m softcann trace, which reads and compares them."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from fork_server import run_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))
from softcann import trace  # noqa: E402

PROGRAM = """
import torch, torch_npu
x = torch.arange(6.).reshape(2, 3).npu()
y, z = torch.empty(2, 2, device="npu"), [x, x]
torch.npu.synchronize()
with open({file!r}, "a") as marks:
    marks.write("case all\\n")
torch.add(x.t(), 2.5, alpha=2)
torch.cat([x, x], 1)
x[:, 1:].sum(1, keepdim=True)
torch.nn.functional.gelu(x, approximate="tanh")
side = torch.npu.Stream()
with torch.npu.stream(side):
    {last}
torch.npu.synchronize()
"""


def run(code, path):
    return run_python(code, SOFTCANN_TRACE=path)


def traced(path, last="x * 2"):
    done = run(PROGRAM.format(file=str(path), last=last), path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("trace") / "first")


def test_a_launch_has_each_argument_as_the_client_gave_it(file):
    launches = trace.cases(file)["all"].launches
    added, joined, summed = (next(launch for launch in launches if launch.op == op) for op in ("aclnnAdds", "aclnnCat", "aclnnReduceSum"))
    assert added.args["self"] == {"dtype": 0, "shape": [3, 2], "strides": [1, 3], "offset": 0, "format": 2, "storage": [6]}
    assert added.args["other"]["value"] == 2.5 and added.args["alpha"] == {"scalar": 9, "value": 2}
    assert [tensor["shape"] for tensor in joined.args["tensors"]] == [[2, 3], [2, 3]] and joined.args["dim"] == 1
    assert summed.args["self"]["offset"] == 1 and summed.args["dims"] == [1] and summed.args["keepDims"] == 1
    assert [launch.stream for launch in launches] == [0] * (len(launches) - 1) + [1]


def test_two_runs_of_one_program_are_equal(file, tmp_path):
    text, agree = trace.report(file, traced(tmp_path / "second"))
    assert (text, agree) == ("1 cases in both, 1 equal", True)


def test_differences_are_told_by_operator_and_argument(file, tmp_path):
    differences = trace.compare(trace.cases(file), trace.cases(traced(tmp_path / "number", "x * 3")))
    assert [d.key() for d in differences] == [("argument", "aclnnMuls", "other")]
    assert (differences[0].left["value"], differences[0].right["value"]) == (2, 3)
    differences = trace.compare(trace.cases(file), trace.cases(traced(tmp_path / "operator", "x.sqrt()")))
    assert [(d.what, d.left, d.right) for d in differences] == [("operators", "aclnnMuls", "aclnnSqrt")]


def test_command(file, tmp_path):
    other = traced(tmp_path / "other", "x * 3")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "third_party" / "softcann" / "python")}

    def softcann(*arguments):
        return subprocess.run([sys.executable, "-m", "softcann", "trace", *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    counts = softcann(file)
    assert counts.returncode == 0 and "aclrtMalloc" in counts.stdout and "1  aclnnCat" in counts.stdout
    assert softcann(file, "--diff", file).returncode == 0
    assert softcann(file, "--diff", other).returncode == 1
    missing = softcann(tmp_path / "nothing")
    assert missing.returncode != 0 and "nothing" in missing.stderr and "Traceback" not in missing.stderr
    for content in (b"1 2 launch {", b"1 2 launch {}", b"\xff\xff"):
        (tmp_path / "damaged").write_bytes(content)
        damaged = softcann(tmp_path / "damaged")
        assert damaged.returncode == 2 and "damaged is not what SOFTCANN_TRACE wrote" in damaged.stderr


def test_texts_are_quoted(tmp_path):
    code = """
import torch, torch_npu
q = torch.rand(1, 2, 4, 16).half().npu()
torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD")
torch.npu.synchronize()
"""
    done = run(code, tmp_path / "texts")
    assert done.returncode == 0, done.stderr
    launches = [json.loads(details) for name, details in trace.lines(tmp_path / "texts") if name == "launch"]
    assert any(argument == "BNSD" for launch in launches for argument in launch["args"].values())


def test_programs_without_cases_are_compared_as_a_whole(tmp_path, capsys):
    def written(name, *scalars):
        launches = [json.dumps({"op": "aclnnAdds", "stream": 1, "args": {"other": scalar}}) for scalar in scalars]
        (tmp_path / name).write_text("".join(f"1.0 7 launch {launch}\n" for launch in launches))
        return str(tmp_path / name)

    one, other = written("one", 1, 2), written("other", 1, 3)
    assert trace.main([one, "--diff", one]) == 0 and capsys.readouterr().out == "no cases: 2 and 2 launches, equal\n"
    assert trace.main([one, "--diff", other]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no cases: 2 and 2 launches, 1 differences" and lines[1] == "argument: aclnnAdds.other, 1 times"
    (tmp_path / "other").write_text("case all\n" + (tmp_path / "other").read_text())   # one has cases, one has none
    assert trace.main([one, "--diff", other]) == 1
    assert capsys.readouterr().out.splitlines() == ["0 cases in both, 0 equal", f"    1 more in {other}"]
