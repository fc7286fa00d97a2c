"""libatb from C++: operations that are made, set up and executed, and what is wrong in a call. Values: test/witness/transformer_boost.py."""
import os
import shutil
import subprocess

import pytest
import torch
from nn_client import ROOT


@pytest.fixture(scope="module")
def said(libraries, tmp_path_factory):
    """{what the client did: what it says of it}, lines without a colon by their first word."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or pytest.fail("no C++ compiler")
    program = tmp_path_factory.mktemp("atb") / "client"
    subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'third_party' / 'cann' / 'include'}",
                    ROOT / "test" / "softcann_op" / "atb_client.cpp", "-o", program, f"-L{libraries}", "-latb", "-lascendcl",
                    "-Wl,--allow-shlib-undefined"], check=True)
    torch_libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{libraries}{os.pathsep}{torch_libraries}"}
    lines = subprocess.run([program], check=True, capture_output=True, text=True, timeout=300, env=environment).stdout.splitlines()
    return {head: rest.strip() for head, _, rest in (line.partition(": ") if ": " in line else line.partition(" ") for line in lines)}


def test_a_product_is_added(said):
    assert [said[step] for step in ("context", "made", "setup", "execute", "shapes", "twice set up", "destroyed")] == ["0"] * 7
    assert said["LinearOperation"] == "3 1 sums 14 25 40 51" and said["result"] == "2 2"


def test_products_of_groups_are_added(said):
    assert [said[f"groups {step}"] for step in ("made", "setup", "execute", "synchronize")] == ["0"] * 4
    assert said["GroupedMatmulInplaceAddOperation"] == "4 1 sums 32 43 502 602"
    assert said["A as it is"] == "17 GroupedMatmulInplaceAddOperation: softcann does not serve products but of A transposed with B"
    assert said["groups apart"] == "14 GroupedMatmulInplaceAddOperation: the output is not the memory of the sums"


def test_lengths_are_read_at_setup(said):
    assert said["lengths on the host"] == "0" and said["attended"] == "0" and said["first"] == "row 1 0"


def test_what_is_wrong_says_so(said):
    assert said["before setup"] == "10 LinearOperation is executed without being set up"
    assert said["too few"] == "5 LinearOperation has 3 inputs, 2 are given"
    assert said["no context"] == "20 LinearOperation: the context is a null pointer"
    assert said["lengths on the device"] == "14 PagedAttentionOperation: contextLens is not on the host, where its numbers are needed"
    assert said["not served"] == "17 PagedAttentionOperation: softcann does not serve LogN scaling" and said["none made"] == "1"
    assert not said["too long"].startswith("0") and "needs 2 pages" in said["too long"]
    assert said["nothing destroyed"].startswith("24 ") and said["context destroyed"] == "0"


def test_arrays_hold_what_was_reserved(said):
    assert said["array"] == "100 99"
