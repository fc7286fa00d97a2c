"""examples/offline from a JPEG to classes, and to boxes, against the same networks in torch on Pillow's picture; in C++ as in Python."""
import ast
import ctypes.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from media_tools import LIBRARIES, ROOT

pytest.importorskip("onnx", reason="softcann[atc] is not installed")
Image = pytest.importorskip("PIL.Image")


pytestmark = pytest.mark.skipif(not ctypes.util.find_library("turbojpeg"), reason="libturbojpeg is not installed")
EXAMPLES = ROOT / "examples/offline"


@pytest.fixture
def environment():
    import torch

    paths = os.pathsep.join([str(LIBRARIES), os.path.join(os.path.dirname(torch.__file__), "lib")])
    return {**os.environ, "LD_LIBRARY_PATH": paths, "PYTHONPATH": str(ROOT / "third_party/softcann/python")}


def output_of(environment, *command):
    run = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()


def test_classes_of_a_jpeg(tmp_path, monkeypatch, environment):
    import torch

    y, x = np.mgrid[:300, :400]
    pixels = np.stack([127 + 120 * np.sin(x / (31 + 9 * i) + i) * np.cos(y / (43 - 7 * i)) for i in range(3)], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.jpg", quality=95)
    lines = output_of(environment, sys.executable, EXAMPLES / "classify.py", tmp_path / "photo.jpg")
    lines = dict(line.split(": ", 1) for line in lines[-3:])
    ids, scores = ast.literal_eval(lines["class_ids"]), ast.literal_eval(lines["scores"])

    monkeypatch.syspath_prepend(str(ROOT / "third_party/softcann/python"))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import classify

    small = np.asarray(Image.open(tmp_path / "photo.jpg").resize((224, 224), Image.BILINEAR)) / 255
    small = (small - classify.MEAN) / classify.STD
    with torch.no_grad():
        expected = classify.resnet()(torch.tensor(small.transpose(2, 0, 1)[None], dtype=torch.float32)).softmax(1)[0]
    assert abs(expected[ids].numpy() - scores).max() < 0.1 * expected.max()   # Pillow's filter and chroma differ a little
    assert set(expected.argsort(descending=True)[:20].tolist()) & set(ids)


def boxes_of(lines):
    """(label, box) of the printed lines, from left to right."""
    words = [line.split() for line in lines]
    return sorted(((one[0], [float(side) for side in one[2:]]) for one in words), key=lambda found: found[1])


def overlap(left, right):
    low, high = np.maximum(left[:2], right[:2]), np.minimum(left[2:], right[2:])
    shared = np.clip(high - low, 0, None).prod()
    return shared / (np.prod(np.subtract(left[2:], left[:2])) + np.prod(np.subtract(right[2:], right[:2])) - shared)


@pytest.mark.slow   # trains a detector first
def test_boxes_of_a_jpeg_in_python_and_cpp(tmp_path, monkeypatch, environment):
    photo, kept, built = tmp_path / "shapes.jpg", tmp_path / "kept", tmp_path / "built"
    lines = output_of(environment, sys.executable, EXAMPLES / "detect.py", photo, "--example", "--keep", kept)

    monkeypatch.syspath_prepend(str(ROOT / "third_party/softcann/python"))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import detect

    drawn = sorted(((detect.LABELS[label], box) for label, box in detect.draw(np.random.default_rng(28), 480, 360)[1]), key=lambda found: found[1])
    found = boxes_of(lines[-3:])
    assert [label for label, _ in found] == [label for label, _ in drawn] and len(drawn) == 3
    assert all(overlap(one, other) > 0.7 for (_, one), (_, other) in zip(found, drawn))

    cmake = shutil.which("cmake", path=os.path.dirname(sys.executable)) or shutil.which("cmake")
    output_of(environment, cmake, "-S", EXAMPLES, "-B", built, f"-DCANN_INCLUDE={ROOT / 'third_party/cann/include'}",
              f"-DCANN_LIBRARIES={LIBRARIES}")
    output_of(environment, cmake, "--build", built)
    assert output_of(environment, built / "detect", kept / "detector.om", photo) == lines[-3:]
    photo.write_bytes(photo.read_bytes()[:100])
    cut = subprocess.run([built / "detect", kept / "detector.om", photo], env=environment, capture_output=True, text=True)
    assert cut.returncode == 1 and "acldvppJpeg" in cut.stderr
