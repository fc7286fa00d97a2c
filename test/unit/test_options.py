"""Every registered option does something: code reads it outside of its table, and a test names it."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOFTCANN = ROOT / "third_party" / "softcann" / "src"


def text_of(*roots, skip=()):
    return {path: path.read_text(errors="replace") for root in roots for path in sorted(root.rglob("*"))
            if path.suffix in (".cpp", ".h", ".inl", ".py", ".c") and path.name not in skip}


ADAPTER_CODE = "\n".join(text_of(ROOT / "csrc", ROOT / "torch_npu", skip=("options.cpp", "options.h")).values())
SOFTCANN_CODE = "\n".join(text_of(SOFTCANN, skip=("options.cpp", "options.h")).values())
TESTS = "\n".join(text_of(ROOT / "test", skip=("test_options.py",)).values())
ADAPTER = re.findall(r'^NPU_OPTION\([^,]+, (\w+), .*?"([A-Z0-9_,]+)",', (ROOT / "csrc" / "core" / "options.def").read_text(), re.M | re.S)
SOFT = re.findall(r'^SOFTCANN_OPTION\((\w+), "(\w+)"', (SOFTCANN / "rt" / "base" / "options.def").read_text(), re.M)
# What nothing but reading shows to work. This list only gets shorter.
UNTESTED = {
    "sync_timeout_s", "hccl_trace_pickle", "matmul_allow_hf32", "conv_allow_hf32", "hccl_enable_monitoring", "hccl_heartbeat_timeout_sec",
    "hccl_trace_buffer_size", "hccl_trace_stacks", "hccl_dump_on_timeout", "SOFTCANN_THREADS",
    "SOFTCANN_SPIN_US",
}


def test_the_tables_were_found():
    for found, file, macro in ((ADAPTER, ROOT / "csrc" / "core" / "options.def", "NPU_OPTION("),
                               (SOFT, SOFTCANN / "rt" / "base" / "options.def", "SOFTCANN_OPTION(")):
        assert len(found) == len(re.findall(rf"^{re.escape(macro)}", file.read_text(), re.M)) > 10


@pytest.mark.parametrize("field, variables", ADAPTER, ids=[field for field, _ in ADAPTER])
def test_an_option_of_the_adapter(field, variables):
    assert re.search(rf'\.{field}\b|"{field}"', ADAPTER_CODE), "nobody reads it"
    named = any(re.search(rf"\b{name}\b", TESTS) for name in [field, *variables.split(",")])
    assert named != (field in UNTESTED), "no test names it" if not named else "it is tested: take it out of UNTESTED"


@pytest.mark.parametrize("field, variable", SOFT, ids=[field for field, _ in SOFT])
def test_an_option_of_softcann(field, variable):
    assert re.search(rf"\.{field}\b", SOFTCANN_CODE), "nobody reads it"
    named = re.search(rf"\b{variable}\b", TESTS) is not None
    assert named != (variable in UNTESTED), "no test names it" if not named else "it is tested: take it out of UNTESTED"
