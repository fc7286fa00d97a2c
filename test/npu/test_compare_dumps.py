"""python -m torch_npu.compare: two dumps of operators."""
import json
import re
import xml.etree.ElementTree

import pytest
import torch

from torch_npu import compare


def dump(folder, function, **config):
    torch.npu.init_dump()
    try:
        torch.npu.set_dump({"dump_path": str(folder), **config})
        function()
    finally:
        torch.npu.finalize_dump()


def network(device, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    x, w = torch.randn(8, 16).to(device, dtype), torch.randn(16, 4).to(device, dtype).requires_grad_()

    def run():
        y = (x @ w).sigmoid()
        (y * y).sum().backward()
    return run


@pytest.fixture
def both(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    dump(a, network("npu"))
    dump(b, network("cpu"), dump_device="cpu")
    return str(a), str(b)


def test_npu_and_cpu_agree_forward_and_backward(both, capsys):
    result = compare.compare(*both)
    assert result.first is None and result.made is None
    operators = [row.operator for row in result.rows if row.kind == "output"]
    assert operators.index("aten.mm.default") < operators.index("aten.sigmoid.default") < operators.index("aten.sigmoid_backward.default")
    assert operators.count("aten.mm.default") == 2
    assert all(row.cosine is None or row.cosine > 0.999999 for row in result.rows)
    assert compare.main(list(both)) == 0 and "0 differ" in capsys.readouterr().out


def test_the_first_operator_that_differs_is_named(tmp_path, both):
    """A file is changed: everything before it agrees, and so do the operator's inputs."""
    import numpy as np

    index = [json.loads(line) for line in open(f"{both[0]}/index.jsonl")]
    entry = next(entry for entry in index if entry["operator"] == "aten.sigmoid.default" and entry["kind"] == "output")
    values = np.load(f"{both[0]}/{entry['file']}")
    np.save(f"{both[0]}/{entry['file']}", values * np.float32(1.01))
    result = compare.compare(*both)
    assert result.first is result.made and result.first.operator == "aten.sigmoid.default"
    assert result.first.error == pytest.approx(0.01, rel=1e-3) and result.first.lines[0].startswith(__file__)
    assert compare.compare(*both, rtol=0.02).first is None


@pytest.mark.filterwarnings("ignore:.*[Oo]verriding a previously registered kernel.*")
def test_a_wrong_kernel_is_the_first_whose_inputs_agree(tmp_path):
    dump(tmp_path / "b", network("cpu"), dump_device="cpu")
    library = torch.library.Library("aten", "IMPL")
    library.impl("sigmoid", lambda x: (x.cpu().sigmoid() * 1.01).npu(), "PrivateUse1")
    try:
        dump(tmp_path / "a", network("npu"))
    finally:
        library._destroy()
    result = compare.compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert result.made.operator == result.first.operator == "aten.sigmoid.default" and result.made.lines[0].startswith(__file__)


def test_what_comes_in_is_told_from_what_is_made(tmp_path):
    dump(tmp_path / "a", network("npu"))
    dump(tmp_path / "b", network("npu", seed=1))
    result = compare.compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert result.first.operator == "aten.mm.default" and result.made is None


def test_two_precisions_and_statistics(tmp_path):
    for data in ("tensor", "stats"):
        dump(tmp_path / f"a{data}", network("npu"), dump_data=data)
        dump(tmp_path / f"b{data}", network("npu", torch.bfloat16), dump_data=data)
        result = compare.compare(str(tmp_path / f"a{data}"), str(tmp_path / f"b{data}"))
        assert result.first is None and {row.dtypes for row in result.rows} == {("float32", "bfloat16")}


def test_calls_of_one_side_are_named_and_the_rest_is_aligned(tmp_path):
    x = torch.arange(4.0, device="npu")
    dump(tmp_path / "a", lambda: (x.exp(), x.sin(), x.exp()))
    dump(tmp_path / "b", lambda: (x.exp(), x.exp(), x.cos()))
    result = compare.compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert result.first is None and len([row for row in result.rows if row.kind == "output"]) == 2
    assert result.only_a == ["step 0: aten.sin.default #0"] and result.only_b == ["step 0: aten.cos.default #0"]


def test_nan_is_equal_to_nan_only(tmp_path):
    values = torch.tensor([1.0, -1.0])
    dump(tmp_path / "a", lambda: values.npu().log(), dump_list=["log"])
    dump(tmp_path / "b", lambda: values.log(), dump_device="cpu", dump_list=["log"])
    dump(tmp_path / "c", lambda: values.abs().log(), dump_device="cpu", dump_list=["log"])
    folders = [str(tmp_path / name) for name in "abc"]
    assert compare.compare(folders[0], folders[1]).first is None
    assert compare.compare(folders[0], folders[2]).first.differs == "1 elements are finite in one only"


def test_the_page_and_the_json(both, tmp_path, capsys):
    page, table = tmp_path / "page.html", tmp_path / "table.json"
    assert compare.main([*both, "--html", str(page), "--json", str(table), "--rtol", "0"]) in (0, 1)
    text = page.read_text()
    chart = xml.etree.ElementTree.fromstring(re.search(r"<svg.*?</svg>", text, re.S).group())
    rows = json.loads(table.read_text())["rows"]
    assert len(chart.findall("circle")) == len([row for row in rows if row["kind"] == "output"]) > 5
    assert "http" not in text and text.count("<tr") == len(rows) + 1


def test_what_is_no_dump_is_an_error(tmp_path, both, capsys):
    assert compare.main([str(tmp_path / "nothing"), both[1]]) == 2 and "is no dump of operators" in capsys.readouterr().err
    lines = open(f"{both[0]}/index.jsonl").read()
    open(f"{both[0]}/index.jsonl", "w").write(lines[:-20])   # a killed program
    assert compare.main(list(both)) == 0
    open(f"{both[0]}/index.jsonl", "w").write("{\n" + lines)
    assert compare.main(list(both)) == 2
