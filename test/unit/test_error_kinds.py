"""Errors are decided upon by their kind or code: no source looks for words in a message."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESSAGE = r"\b\w*(?:what|what_without_backtrace|message|reason|error|cause|msg|report)\w*(?:\(\))?"
SEARCHED = r"(?:find|rfind|find_first_of|starts_with|ends_with|contains|compare)"
CPP = [
    re.compile(MESSAGE + r"(?:\.|->)" + SEARCHED + r"\("),  # error.find(...)
    re.compile(r"\." + SEARCHED + r'\("[^"]*[a-z] [a-z][^"]*"'),  # anything.find("two words")
    re.compile(r"\bstrstr\([^,]*(?:what|message|reason|error|cause|msg|report)"),
]
PYTHON = [
    re.compile(r"\bin (?:repr|str)\(\w*(?:e|err|error|exc|exception|problem|caught)\)"),  # "words" in str(error)
    re.compile(r"str\(\w*(?:err|error|exc|exception)\)\.(?:startswith|endswith|find|index|count|lower|split)"),
    re.compile(r"re\.(?:search|match|findall)\([^)]*str\(\w*(?:err|error|exc|exception)\)"),
    re.compile(r"\bin (?:message|reason|cause)\b(?!\.)"),  # a protobuf message has fields, a text has none
]


def sources():
    for folder in ("csrc", "third_party/softcann/src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cpp", ".h", ".inl"):
                yield path, CPP
    for folder in ("torch_npu", "codegen", "third_party/softcann/python"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, PYTHON


def by_wording(text, patterns):
    return [line.strip() for line in text.splitlines() if any(pattern.search(line) for pattern in patterns)]


def test_nothing_is_decided_by_the_wording_of_a_message():
    found = {str(path.relative_to(ROOT)): lines for path, patterns in sources() if (lines := by_wording(path.read_text(), patterns))}
    assert found == {}


@pytest.mark.parametrize("patterns, line", [
    (CPP, 'if (error.what_without_backtrace().find("out of") != npos) {'),
    (CPP, 'return reason.find("late") != std::string::npos ? kTimeout : kFailed;'),
    (CPP, 'if (text.find("did not join") != std::string::npos)'),
    (CPP, 'if (strstr(error.what(), "timeout"))'),
    (PYTHON, 'if "no NPU" in str(error):'),
    (PYTHON, 'if "no NPU" in message:'),
    (PYTHON, 'if str(error).startswith("no"):'),
])
def test_the_patterns_find_what_they_are_for(patterns, line):
    assert by_wording(line, patterns)
