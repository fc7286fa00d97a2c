"""examples/offline/classify.py, from a JPEG to classes, against the same network in torch on Pillow's picture."""
import ast
import ctypes.util
import os
import subprocess
import sys

import numpy as np
import pytest
from media_tools import LIBRARIES, ROOT

pytest.importorskip("onnx", reason="softcann[atc] is not installed")
Image = pytest.importorskip("PIL.Image")


@pytest.mark.skipif(not ctypes.util.find_library("turbojpeg"), reason="libturbojpeg is not installed")
def test_classes_of_a_jpeg(tmp_path, monkeypatch):
    import torch

    y, x = np.mgrid[:300, :400]
    pixels = np.stack([127 + 120 * np.sin(x / (31 + 9 * i) + i) * np.cos(y / (43 - 7 * i)) for i in range(3)], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.jpg", quality=95)
    paths = os.pathsep.join([str(LIBRARIES), os.path.join(os.path.dirname(torch.__file__), "lib")])
    environment = {**os.environ, "LD_LIBRARY_PATH": paths, "PYTHONPATH": str(ROOT / "third_party/softcann/python")}
    run = subprocess.run([sys.executable, ROOT / "examples/offline/classify.py", tmp_path / "photo.jpg"], env=environment,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = dict(line.split(": ", 1) for line in run.stdout.splitlines()[-3:])
    ids, scores = ast.literal_eval(lines["class_ids"]), ast.literal_eval(lines["scores"])

    monkeypatch.syspath_prepend(str(ROOT / "third_party/softcann/python"))
    monkeypatch.syspath_prepend(str(ROOT / "examples/offline"))
    import classify

    small = np.asarray(Image.open(tmp_path / "photo.jpg").resize((224, 224), Image.BILINEAR)) / 255
    small = (small - classify.MEAN) / classify.STD
    with torch.no_grad():
        expected = classify.resnet()(torch.tensor(small.transpose(2, 0, 1)[None], dtype=torch.float32)).softmax(1)[0]
    assert abs(expected[ids].numpy() - scores).max() < 0.1 * expected.max()   # Pillow's filter and chroma differ a little
    assert set(expected.argsort(descending=True)[:20].tolist()) & set(ids)
