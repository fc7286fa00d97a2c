"""softcann's table of thresholds: each is asked for by a kernel, measured by the benchmark, and named by the page."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
OP = ROOT / "third_party" / "softcann" / "src" / "op"
NAMES = re.findall(r"^THRESHOLD\((\w+),", (OP / "simd" / "thresholds.def").read_text(), re.M)
UNMEASURED = {"threads_from_ns"}   # an estimate of time is on both sides of it


def test_each_is_used():
    text = "".join(path.read_text() for ending in ("*.cpp", "*.h", "*.inl") for path in OP.rglob(ending))
    assert NAMES and [name for name in NAMES if f"threshold::{name}" not in text] == []


def test_each_is_measured():
    text = (ROOT / "benchmarks" / "thresholds.py").read_text()
    assert {name for name in NAMES if f'"{name}": (' not in text} == UNMEASURED


def test_each_is_on_the_page():
    page = (ROOT / "third_party" / "softcann" / "docs" / "vectorization.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []
