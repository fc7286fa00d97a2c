"""What the documents say is what is there."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "test" / "README.md",
         ROOT / "third_party" / "softcann" / "README.md", *sorted((ROOT / "third_party" / "softcann" / "docs").glob("*.md")),
         *DOCS]


@pytest.mark.parametrize("page", ["options", "operators", "custom_operators", "compatibility", "errors", "clients"])
def test_the_page_is_up_to_date(page):
    subprocess.run([sys.executable, str(ROOT / "docs" / f"gen_{page}.py"), "--check"], check=True)


def test_the_page_of_published_names_is_up_to_date():
    """Its operators are those of the custom operators' page, whose generator writes both."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import gen_published_names
    finally:
        sys.path.pop(0)
    parts = [text.split("## Custom operators")[0] for text in (gen_published_names.PAGE.read_text(), gen_published_names.page())]
    assert parts[0] == parts[1] and "`torch.npu.NPUGraph.super_kernel_optimize` | refused" in parts[0]


def test_every_code_that_the_adapter_knows_has_a_remedy():
    known = set(re.findall(r"NPU_STATUS\((\d{6}), \"", (ROOT / "csrc" / "core" / "status_texts.def").read_text()))
    rows = re.findall(r"^\| (\d{6}[\d, ]*) \|", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M)
    documented = [code for row in rows for code in row.split(", ")]
    assert len(documented) == len(set(documented)) and set(documented) == known


def test_every_promise_has_a_test_that_exists():
    rows = re.findall(r"^\| (?!Promise).*\| (.*) \|$", (ROOT / "SECURITY.md").read_text(), re.M)
    assert len(rows) >= 14
    wrong = []
    for row in rows:
        tests = re.findall(r"`(\w+/\w+\.py)::(\w+)(?:\[(\w+)\])?`", row)
        if not tests:
            wrong.append(f"no test: {row}")
        for file, name, parameter in tests:
            script = ROOT / "test" / file
            text = script.read_text() if script.exists() else ""
            if f"\ndef {name}(" not in text or (parameter and f'"{parameter}"' not in text):
                wrong.append(f"{file}::{name}[{parameter}]")
    assert wrong == []


def test_links_and_scripts_exist():
    missing = []
    for page in PAGES:
        text = page.read_text()
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            if not (page.parent / link).exists():
                missing.append(f"{page.name}: {link}")
        for script in re.findall(r"\b(?:benchmarks|ci|docs|examples)/\w+\.(?:py|sh)\b", text):
            if not (ROOT / script).exists():
                missing.append(f"{page.name}: {script}")
    assert missing == []


def test_every_page_is_reached_from_the_readme():
    linked = set(re.findall(r"docs/\w+\.md", PAGES[0].read_text()))
    assert {f"docs/{page.name}" for page in DOCS} <= linked


def messages_to_look_up():
    """The messages quoted in the first table's first column, as the parts between what varies (X, Y, ...)."""
    table = (ROOT / "docs" / "troubleshooting.md").read_text().split("## Codes")[0]
    for quoted in re.findall(r"^\| `([^`|]+ [^`|]+)`", table, re.M):   # a single word is the name of something
        yield [part.strip() for part in re.split(r"\b[XY]\b|\.\.\.", quoted) if part.strip()]


def test_the_quoted_messages_are_the_real_ones():
    folders = [ROOT / "csrc", ROOT / "torch_npu", ROOT / "third_party" / "softcann" / "src"]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".cpp", ".h")]
    sources = "\n".join(path.read_text() for path in paths)
    # One text, however the source breaks the literal.
    sources = re.sub(r"""["']\s*\n\s*f?["']""", "", sources).replace("\\'", "'")
    messages = list(messages_to_look_up())
    assert len(messages) >= 5
    assert [part for parts in messages for part in parts if part not in sources] == []


def test_each_folder_of_tests_has_its_row():
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "test" / "README.md").read_text(), re.M))
    assert rows == {path.name for path in (ROOT / "test").iterdir() if any(path.glob("test_*")) or any(path.glob("*.cpp"))}
