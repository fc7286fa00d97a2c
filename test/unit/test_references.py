"""Comments that point somewhere: each `Note [...]` that is named stands somewhere, once in each part of the tree, and each file too."""
import collections
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.split()
PARTS = {"the adapter": ("csrc/", "torch_npu/", "codegen/"), "softcann": ("third_party/softcann/",)}
# Files of others, and of the build.
FOREIGN = {"Python.h", "autocast_mode.h", "register_layouts.cpp", "aclnn_ops.h", "mspti_activity.h"}

pytestmark = pytest.mark.skipif(not TRACKED, reason="no git checkout")


def sources(part):
    for name in TRACKED:
        if name.startswith(PARTS[part]) and re.search(r"\.(cpp|h|inl|def|py|yaml)$", name):
            yield name, (ROOT / name).read_text()


@pytest.mark.parametrize("part", PARTS)
def test_notes_that_are_named_are_there_once(part):
    written, named = collections.Counter(), {}
    for name, text in sources(part):
        text = re.sub(r"\n\s*(?://|#) ?", "\n", text)
        heading = re.compile(r"^\s*(?:(?://|#)\s*)?Note \[([^\]\n]+)\]\s*$", re.M)
        written.update(heading.findall(text))
        for found in re.findall(r"Note \[([^\]]+)\]", heading.sub("", text)):
            named.setdefault(" ".join(found.split()), name)
    assert {note for note, count in written.items() if count > 1} == set()
    assert {note: name for note, name in named.items() if note not in written} == {}
    assert len(written) > 20


@pytest.mark.parametrize("part", PARTS)
def test_files_that_comments_name_are_there(part):
    known = {pathlib.Path(name).name for name in TRACKED} | FOREIGN
    missing = []
    for name, text in sources(part):
        for line in re.findall(r"(?://|#)(?!include)([^\n]*)", text):
            missing += [(name, file) for file in re.findall(r"\b(\w+\.(?:cpp|h|inl|py|yaml|def|md))\b", line) if file not in known]
    assert missing == []
