"""The examples of docs/debugging.md run, one after the other in one folder."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_examples_of_the_page_run(tmp_path):
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", (ROOT / "docs" / "debugging.md").read_text(), re.M | re.S)
    assert blocks
    python = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": f"{python}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for number, (kind, text) in enumerate(blocks):
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", text)
            script = tmp_path / (name.group(1) if name else f"example_{number}.py")
            script.write_text(text)
            text = "" if name else f"python {script.name}"
        process = subprocess.run(["bash", "-e", "-c", text], cwd=tmp_path, env=environment, text=True, capture_output=True)
        assert process.returncode == 0, f"{text}\n{process.stdout}\n{process.stderr}"
