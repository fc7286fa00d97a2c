"""libatb from C++: operations that are made, set up and executed, and what is wrong in a call. Values: test/witness/transformer_boost.py."""
import os
import shutil
import subprocess

import pytest
import torch
from nn_client import ROOT

RANKS = 4


def built(libraries, folder, source):
    """The program of a source file here, and the environment to run it in."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or pytest.fail("no C++ compiler")
    program = folder / "client"
    subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'third_party' / 'cann' / 'include'}",
                    ROOT / "test" / "softcann_op" / source, "-o", program, f"-L{libraries}", "-latb", "-lascendcl",
                    "-Wl,--allow-shlib-undefined"], check=True)
    torch_libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    return program, {**os.environ, "LD_LIBRARY_PATH": f"{libraries}{os.pathsep}{torch_libraries}"}


def by_head(text):
    """{what the client did: what it says of it}, lines without a colon by their first word."""
    return {head: rest.strip()
            for head, _, rest in (line.partition(": ") if ": " in line else line.partition(" ") for line in text.splitlines())}


@pytest.fixture(scope="module")
def said(libraries, tmp_path_factory):
    program, environment = built(libraries, tmp_path_factory.mktemp("atb"), "atb_client.cpp")
    return by_head(subprocess.run([program], check=True, capture_output=True, text=True, timeout=300, env=environment).stdout)


@pytest.fixture(scope="module")
def ranks_client(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("atb_ranks")
    program, environment = built(libraries, folder, "atb_ranks_client.cpp")
    # A job of its own beside others on this machine.
    return program, {**environment, "SOFTCANN_DEVICE_COUNT": str(RANKS), "SOFTCANN_MEMORY": "256M", "OMP_NUM_THREADS": "1",
                     "LCAL_COMM_ID": f"127.0.0.1:{os.getpid()}"}, folder


@pytest.fixture(scope="module")
def said_by_rank(ranks_client):
    program, environment, folder = ranks_client
    table = folder / "table.json"
    table.write_text("".join(f'{{"rank_id": "{rank}"}} of {folder}\n' for rank in range(RANKS)))
    processes = [subprocess.Popen([program, str(rank), table], stdout=subprocess.PIPE, universal_newlines=True, env=environment)
                 for rank in range(RANKS)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * RANKS
    return [by_head(output) for output in outputs]


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


def factors(rank, transposed=False):
    """What a rank multiplies."""
    x = torch.arange(8.0).reshape(4, 2) + 10 * rank
    weight = torch.arange(6.0) - rank
    return x, weight.reshape(3, 2).t() if transposed else weight.reshape(2, 3)


def product(rank, transposed=False):
    x, weight = factors(rank, transposed)
    return x @ weight


def found(said_by_rank, rank, what):
    return torch.tensor([float(word) for word in said_by_rank[rank][what].split()]).reshape(-1, 2 if what.endswith("kept") else 3)


@pytest.mark.parametrize("rank", range(RANKS))
def test_products_over_ranks(said_by_rank, rank):
    pair, first = (rank // 2 * 2, rank // 2 * 2 + 1), rank % 2 == 0
    residual = torch.tensor([100.0, 101.0, 102.0])
    total = sum(product(one, True) for one in pair) + residual
    for what in ("all_reduce", "again", "batch"):
        assert torch.equal(found(said_by_rank, rank, what), total), what
    assert torch.equal(found(said_by_rank, rank, "table"), sum(product(one) for one in range(RANKS)))
    part = sum(product(one) for one in pair)[:2] if first else sum(product(one) for one in pair)[2:]
    for what in ("scatter", "scatter one matrix"):
        assert torch.equal(found(said_by_rank, rank, what), part), what
    gathered = torch.cat([factors(one)[0] for one in pair])
    assert torch.equal(found(said_by_rank, rank, "gather"), gathered @ factors(rank)[1])
    assert torch.equal(found(said_by_rank, rank, "gather and keep"), gathered @ factors(rank)[1] + residual)
    assert torch.equal(found(said_by_rank, rank, "gather and keep kept"), gathered)
    assert torch.equal(found(said_by_rank, rank, "pure"), product(rank) + residual)
    assert [said_by_rank[rank][f"{what} sizes"] for what in ("all_reduce", "batch", "scatter", "scatter one matrix", "gather",
                                                             "inner gather")] == ["4 3", "2 2 3", "2 3", "1 2 3", "8 3", "4 3"]


@pytest.mark.parametrize("rank", range(RANKS))
def test_products_over_two_dimensions(said_by_rank, rank):
    pairs = {"inner gather": [(0, 1), (2, 3)], "inner scatter": [(0, 2), (1, 3)]}
    for what, gathering in pairs.items():
        scattering = pairs["inner scatter" if what == "inner gather" else "inner gather"]
        summed = next(group for group in scattering if rank in group)
        parts = []
        for one in summed:
            gathered = torch.cat([factors(other)[0] for other in next(group for group in gathering if one in group)])
            parts.append(gathered @ factors(one)[1])
        assert torch.equal(found(said_by_rank, rank, what), sum(parts).chunk(2)[summed.index(rank)]), what


def test_what_products_over_ranks_do_not_take(said_by_rank):
    prefix = "17 LinearParallelOperation: softcann does not serve "
    said = said_by_rank[0]
    assert said["int8"] == prefix + "products of int8" and said["groups"] == prefix + "types but those of one product"
    assert said["backend"] == prefix + "backends but hccl, lccl, lcoc and mc2"
    assert said["rank"] == prefix + "a rank that is not below rankSize"
    assert said["dims"] == prefix + "agDim and rsDim that do not make rankSize"
    assert "8 rows of 2 and a weight of 2 by 3 do not make the result, 4 of 3" in said["wrong rows"]


def test_ranks_of_another_job_do_not_meet(ranks_client):
    program, environment, _ = ranks_client
    processes = [subprocess.Popen([program, rank], stdout=subprocess.PIPE, universal_newlines=True,
                                  env={**environment, "HCCL_CONNECT_TIMEOUT": "2", "MASTER_PORT": rank}) for rank in "01"]
    first, second = (by_head(process.communicate(timeout=300)[0])["alone"] for process in processes)
    assert first.startswith("25 LinearParallelOperation: ") and "rank(s) 1 of 2 did not join in time" in first
    assert second.startswith("25 LinearParallelOperation: ") and "rank 0 did not come in time" in second
