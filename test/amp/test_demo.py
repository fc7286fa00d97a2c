"""The demo in mixed precision: it learns, says where the time goes, and saves its curves."""
import re
import sys

import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
import lenet_digits
from mixed_precision import KINDS
from models.lenet import LeNet

LINE = re.compile(r"epoch +\d+/\d+ +\d+/\d+  loss [\d.]+  reader cost ([\d.]+) s  batch cost ([\d.]+) s  ([\d.]+) images/s  ETA (\d+:\d\d:\d\d)")


def demo(monkeypatch, capsys, *arguments):
    """(exit code, output) of the program."""
    monkeypatch.setattr(sys, "argv", ["lenet_digits.py", *arguments])
    code = lenet_digits.main()
    return code, capsys.readouterr().out


# What the model's weights are in, and what autocast computes in while it runs.
TYPES = {"O0": (torch.float32, None), "O1": (torch.float32, torch.float16), "O2": (torch.float16, None),
         "fp16": (torch.float32, torch.float16), "bf16": (torch.float32, torch.bfloat16)}


@pytest.mark.alone   # what it says of its speed must go together
@pytest.mark.parametrize("kind", KINDS)
def test_in_mixed_precision(monkeypatch, capsys, tmp_path, kind):
    seen, forward = set(), LeNet.forward

    def watch(self, x):
        seen.add((next(self.parameters()).dtype, torch.get_autocast_dtype("npu") if torch.is_autocast_enabled("npu") else None))
        return forward(self, x)
    monkeypatch.setattr(LeNet, "forward", watch)
    code, output = demo(monkeypatch, capsys, "--amp", kind, "--epochs", "6", "--plot", str(tmp_path / "curves.png"))
    assert code == 0, output   # the accuracy it asks for was reached
    lines = LINE.findall(output)
    assert len(lines) == 6 * 23 // 10, output
    for reader, batch, speed, _ in lines:
        assert float(reader) > 0 and float(batch) > 0
        # 64 images a step, fewer in the last one of an epoch; the costs are rounded to 1e-5 s
        assert 0.5 * 64 < float(speed) * (float(reader) + float(batch)) < 1.01 * 64
    assert lines[-1][3] <= lines[0][3]
    assert seen == {TYPES[kind]}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_without_it_and_what_is_refused(monkeypatch, capsys):
    code, output = demo(monkeypatch, capsys, "--epochs", "1")
    assert code == 1 and "reader cost" not in output and "test accuracy" in output   # one epoch is not enough
    with pytest.raises(SystemExit, match="O1 is for the NPU"):
        demo(monkeypatch, capsys, "--device", "cpu", "--amp", "O1")
    with pytest.raises(SystemExit):
        demo(monkeypatch, capsys, "--amp", "O9")
    assert "invalid choice: 'O9'" in capsys.readouterr().err
