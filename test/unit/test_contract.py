"""The contract against the project's fact tables: prototypes, enum values, struct layouts.

The tables are not part of the repository; without them only the contract's own consistency is tested.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CANN = ROOT / "third_party" / "cann"
FACTS = ROOT.parent / "shared" / "facts"
sys.path.insert(0, str(CANN))
import gen_aclnn  # noqa: E402

needs_facts = pytest.mark.skipif(not FACTS.is_dir(), reason="the fact tables are not beside this checkout")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")

# Width and kind of an argument, which is all that the C interface fixes.
ABI = {"T": "p", "T!": "p", "S": "p", "S!": "p", "T[]": "p", "T[]!": "p", "S[]": "p", "int[]": "p", "float[]": "p",
       "bool[]": "p", "char*": "p", "dtype": "i4", "bool": "i1", "double": "f8", "float": "f4", "int": "i4", "i8": "i1",
       "i32": "i4", "i64": "i8", "u32": "i4", "u64": "i8"}
FACT_ABI = {"bool": "i1", "int8_t": "i1", "double": "f8", "float": "f4", "int": "i4", "int32_t": "i4", "uint32_t": "i4",
            "aclDataType": "i4", "int64_t": "i8", "uint64_t": "i8"}


def load(name):
    return json.loads((FACTS / name).read_text())


def operators():
    return {op.name: op for op in gen_aclnn.parse(CANN / "aclnn_ops.txt")}


def test_bad_lines_are_refused():
    with pytest.raises(ValueError, match="unknown type 'X'"):
        gen_aclnn.parse_line("aclnnFoo(X self)")
    with pytest.raises(ValueError, match="not 'name"):
        gen_aclnn.parse_line("aclnnFoo T self")


def test_operators_are_sorted_and_unique():
    names = [op.name for op in gen_aclnn.parse(CANN / "aclnn_ops.txt")]
    assert names == sorted(names) and len(names) > 1300


@needs_facts
def test_every_operator_has_the_facts_signature():
    facts = load("aclnn.json")["ops"]
    wrong = []
    for name, op in operators().items():
        expected = ["p" if p["ptr"] else FACT_ABI[p["type"]] for p in facts[name]["params"][:-2]]
        found = [ABI[p.kind] for p in op.params]
        if found != expected and name != "aclnnSqrt":  # the table's row for it repeats the executor
            wrong.append((name, found, expected))
    assert wrong == []


def compile_and_run(tmp_path, text, compiler="g++"):
    source = tmp_path / "check.cpp"
    source.write_text(text)
    gen_aclnn.main(str(CANN / "aclnn_ops.txt"), str(tmp_path))
    subprocess.run([compiler, "-I", str(CANN / "include"), "-I", str(tmp_path), "-o", str(tmp_path / "check"), str(source)],
                   check=True, capture_output=True, text=True)
    return subprocess.run([str(tmp_path / "check")], check=True, capture_output=True, text=True).stdout


@needs_facts
@needs_compiler
@pytest.mark.parametrize("header, table", [("acl/acl_mdl.h", "acl_enums.json"), ("hccl/hccl.h", "hccl.json")])
def test_values_and_layouts_are_the_facts(tmp_path, header, table):
    facts = load(table)
    declared = "\n".join(p.read_text() for p in (CANN / "include").rglob("*.h"))
    expected, lines = {}, []
    for enum in facts["enums"].values():
        for name, value in enum["values"].items():
            if re.search(rf"\b{name} = ", declared):
                expected[name] = value
                lines.append(f'printf("{name} %lld\\n", (long long){name});')
    for name, struct in facts["structs"].items():
        if not re.search(rf"}} {name};", declared):
            continue
        expected[f"sizeof({name})"] = struct["size"]
        lines.append(f'printf("sizeof({name}) %zu\\n", sizeof({name}));')
        for field in struct["fields"]:
            key = f"{name}.{field['name']}"
            expected[key] = field["offset"]
            lines.append(f'printf("{key} %zu\\n", offsetof({name}, {field["name"]}));')
    assert len(expected) > 50
    others = "".join(f'#include "acl/{name}.h"\n' for name in ("acl_dump", "acl_op_compiler", "acl_prof", "acl_rt_memory_soma",
                                                               "ops/acl_cblas"))
    text = f'#include "{header}"\n{others}#include <cstdio>\n#include <cstddef>\nint main() {{\n' + "\n".join(lines) + "\n}\n"
    found = {key: int(value) for key, value in (line.rsplit(" ", 1) for line in compile_and_run(tmp_path, text).splitlines())}
    assert found == expected


@needs_facts
def test_runtime_prototypes_have_the_facts_parameters():
    headers = (*sorted((CANN / "include/acl").glob("*.h")), *(CANN / "include" / name for name in ("mstx/ms_tools_ext.h", "mspti/mspti.h")))
    text = "\n".join(path.read_text() for path in headers)
    facts = load("acl_runtime.json")["functions"]
    declared = dict(re.findall(r"\b(\w+)\(([^;]*)\);", re.sub(r"\s+", " ", text)))
    checked = 0
    for name, parameters in declared.items():
        if name not in facts:
            continue
        expected = [p["name"] for p in facts[name]["params"] if p["type"] != "..." and not p.get("fnptr")]
        for parameter in expected:
            assert re.search(rf"\b{parameter}\b", parameters), (name, parameter)
        checked += 1
    assert checked > 300


# Headers of CANN's that are C++ alone: by folder.
CPP = ("adxl", "atb", "external", "ge", "graph", "hixl", "parser", "aclnn/opdev")


@needs_compiler
@pytest.mark.parametrize("compiler, language, standard", [("gcc", "c", "c11"), ("g++", "c++", "c++11")])
def test_each_header_compiles_alone(tmp_path, compiler, language, standard):
    """As the first that a program includes; those of operators are made of the table."""
    gen_aclnn.main(str(CANN / "aclnn_ops.txt"), str(tmp_path))
    names = [str(path.relative_to(CANN / "include")) for path in sorted((CANN / "include").rglob("*.h"))]
    assert {"acl/acl.h", "acl/acl_base.h", "acl/acl_rt_memory_soma.h", "acl/error_codes/rt_error_codes.h"} <= set(names)
    wrong = {}
    for name in names:
        only_cpp = name.startswith(CPP)
        if only_cpp and language == "c":
            continue
        command = [compiler, f"-std={'c++17' if only_cpp else standard}", "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", CANN / "include",
                   "-I", tmp_path, "-"]
        done = subprocess.run([str(part) for part in command], input=f'#include "{name}"\n', text=True, capture_output=True)
        if done.returncode != 0:
            wrong[name] = done.stderr.splitlines()[:3]
    assert not wrong


@needs_compiler
def test_a_program_that_includes_acl_h_alone(tmp_path):
    """What CANN's acl.h leads to, a program in C has with one include; what it does not, it includes by its own name."""
    source = tmp_path / "program.c"
    text = """#include <acl/acl.h>
    aclmdlIODims dims;
    aclrtMemLocation place;
    int main(void) {{
      aclrtStream stream = 0;
      aclmdlRI graph = 0;
      aclTensorDesc* tensor = aclCreateTensorDesc(ACL_FLOAT, 0, 0, ACL_FORMAT_ND);
      aclopAttr* attributes = aclopCreateAttr();
      aclrtAllocatorDesc allocator = aclrtAllocatorCreateDesc();
      (void)tensor, (void)attributes, (void)allocator, (void)graph;
      {more}
      return aclInit(0) == ACL_ERROR_RT_PARAM_INVALID || aclrtSynchronizeStream(stream) == ACL_ERROR_GE_PARAM_INVALID;
    }}
    """
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-I", str(CANN / "include"), str(source)]
    for more, compiles in (("", True), ("aclrtMemPool pool = 0;", False), ("aclSetCompileopt(ACL_PRECISION_MODE, 0);", False),
                           ("aclTensorList* list = 0;", False)):
        source.write_text(text.format(more=more))
        assert (subprocess.run(command, capture_output=True).returncode == 0) is compiles, more


@needs_compiler
def test_headers_are_c_and_cpp(tmp_path):
    for compiler, suffix in (("gcc", "c"), ("g++", "cpp")):
        source = tmp_path / f"all.{suffix}"
        source.write_text('#include "acl/acl.h"\n#include "acl/acl_mdl.h"\n#include "aclnn/aclnn_ops.h"\n#include "hccl/hccl.h"\n'
                          '#include "mstx/ms_tools_ext.h"\n#include "mspti/mspti.h"\nint main(void) { return 0; }\n')
        gen_aclnn.main(str(CANN / "aclnn_ops.txt"), str(tmp_path))
        subprocess.run([compiler, "-Wall", "-Werror", "-fsyntax-only", "-I", str(CANN / "include"), "-I", str(tmp_path), str(source)],
                       check=True)


@pytest.mark.parametrize("text, kind, read, written, declared_const", [
    ("T self", "T", True, False, False), ("T! out", "T!", False, True, False), ("T& selfRef", "T!", True, True, False),
    ("const T! yOut", "T", False, True, True), ("const T& m", "T", True, True, True), ("T[]& x", "T[]!", True, True, False),
    ("const T[]& paramsRef", "T[]", True, True, True), ("int[] dims", "int[]", True, False, False)])
def test_what_is_done_with_a_parameter(text, kind, read, written, declared_const):
    param = gen_aclnn.parse_param(text)
    assert (param.kind, param.read, param.written, param.declared_const) == (kind, read, written, declared_const)


@pytest.mark.parametrize("text", ["S& alpha", "const S! alpha", "T? self", "const T self", "int[]! sizes"])
def test_marks_that_no_kind_has_are_refused(text):
    with pytest.raises(ValueError, match="unknown type"):
        gen_aclnn.parse_param(text)


def test_operators_in_place_read_what_they_write_unless_they_fill():
    named = operators()
    for name, expected in (("aclnnInplaceAdd", "br"), ("aclnnInplaceCopy", "wr"), ("aclnnInplaceZero", "w"),
                           ("aclnnApplyAdam", "bBB"), ("aclnnAdd", "rrrw"), ("aclnnInplaceHardswish", "B"), ("aclnnNdtri", "rW")):
        assert "".join(gen_aclnn.access(p) for p in named[name].params)[:len(expected)] == expected, name


def test_the_list_of_operators_by_name_is_up_to_date():
    script = ROOT / "third_party" / "softcann" / "src" / "op" / "gen_named_ops.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)
