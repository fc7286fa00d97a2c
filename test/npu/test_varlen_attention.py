"""torch.nn.attention.varlen on the NPU, against attention of one sequence after the other."""
import inspect
import subprocess
import sys

import pytest
import torch

import torch_npu  # noqa: F401

varlen = pytest.importorskip("torch.nn.attention.varlen", reason="torch before 2.10 has no attention over packed sequences")
if "return_aux" not in inspect.signature(varlen.varlen_attn).parameters or "window_size" not in inspect.signature(varlen.varlen_attn).parameters:
    pytest.skip("this torch's varlen_attn has no windows", allow_module_level=True)

QUERIES, KEYS = [0, 5, 5, 12, 20], [0, 7, 9, 16, 22]


def packed(heads=4, size=16):
    torch.manual_seed(0)
    return torch.randn(20, 4, size), torch.randn(22, heads, size), torch.randn(22, heads, size)


def starts(of):
    return torch.tensor(of, dtype=torch.int32, device="npu")


def one_by_one(query, key, value, queries, keys, window=(-1, -1), scale=None):
    """Output and logsumexp; a row that sees no key is 0, and its logsumexp infinite."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    outputs, sums = [], []
    for first, end, first_key, end_key in zip(queries, queries[1:], keys, keys[1:]):
        scores = torch.einsum("qhd,khd->hqk", query[first:end], key[first_key:end_key]) * (scale or query.shape[-1] ** -0.5)
        row = torch.arange(end - first)[:, None] + (end_key - first_key) - (end - first)
        column = torch.arange(end_key - first_key)
        seen = torch.ones(scores.shape[1:], dtype=torch.bool)
        if window[0] >= 0:
            seen &= column >= row - window[0]
        if window[1] >= 0:
            seen &= column <= row + window[1]
        none = ~seen.any(-1)
        scores = scores.masked_fill(~seen, float("-inf")).masked_fill(none[:, None], 0)
        weights = scores.softmax(-1).masked_fill(none[:, None], 0)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, value[first_key:end_key]))
        sums.append(scores.logsumexp(-1).masked_fill(none, float("inf")))
    return torch.cat(outputs), torch.cat(sums, 1)


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (3, 0), (2, 1), (-1, 2), (3, -1)], ids=str)
def test_packed_sequences(window, heads):
    inputs = packed(heads)
    expected = [x.clone().requires_grad_() for x in inputs]
    actual = [x.npu().requires_grad_() for x in inputs]
    output, logsumexp = one_by_one(*expected, QUERIES, KEYS, window, 0.3)
    result, sums = varlen.varlen_attn(*actual, starts(QUERIES), starts(KEYS), 8, 7, window_size=window, scale=0.3, enable_gqa=True,
                                      return_aux=varlen.AuxRequest(lse=True))
    torch.testing.assert_close(result.cpu(), output)
    torch.testing.assert_close(sums.cpu(), logsumexp)
    weights = torch.randn_like(output)
    (output * weights).sum().backward()
    (result * weights.npu()).sum().backward()
    for x, y in zip(actual, expected):
        torch.testing.assert_close(x.grad.cpu(), y.grad)


def test_rows_behind_the_last_sequence():
    query, key, value = packed()
    short = [0, 5, 12]
    actual = [x.npu().requires_grad_() for x in (query, key, value)]
    result = varlen.varlen_attn(*actual, starts(short), starts(short), 7, 7)
    output, _ = one_by_one(query[:12], key[:12], value[:12], short, short)
    torch.testing.assert_close(result[:12].cpu(), output)
    result.sum().backward()
    assert not result[12:].any() and not any(x.grad[12:].any() for x in actual)


@pytest.mark.parametrize("of", ["slots", "pages"])
def test_a_cache_that_is_filled_in_part(of):
    query, key, value = packed()
    used, queries = [7, 1, 4, 6], [0, 5, 5, 12, 20]
    if of == "pages":
        pages = torch.tensor([[3, 1], [0, 0], [2, 7], [5, 4]])
        pool = [torch.randn(8, 4, 4, 16) for _ in range(2)]
        kept = [torch.cat([x[pages[i]].flatten(0, 1)[:n] for i, n in enumerate(used)]) for x in pool]
        more = {"cu_seq_k": None, "block_table": pages.int().npu()}
    else:
        pool = [key, value]
        kept = [torch.cat([x[first:first + n] for first, n in zip(KEYS, [7, 1, 4, 6])]) for x in pool]
        more = {"cu_seq_k": starts(KEYS)}
    ends = torch.tensor([0, *used]).cumsum(0).tolist()
    output, _ = one_by_one(query, *kept, queries, ends, (-1, 0))
    given = dict(cu_seq_q=starts(queries), max_q=8, max_k=7, window_size=(-1, 0), seqused_k=starts(used), **more)
    result = varlen.varlen_attn(query.npu(), *(x.npu() for x in pool), **given)
    torch.testing.assert_close(result.cpu(), output)
    if hasattr(varlen, "varlen_attn_out"):
        out = torch.empty(20, 4, 16, device="npu")
        varlen.varlen_attn_out(out, query.npu(), *(x.npu() for x in pool), **given)
        torch.testing.assert_close(out.cpu(), output)


def test_imported_before_torch_npu():
    program = """
import torch
from torch.nn.attention.varlen import varlen_attn
import torch_npu
x, starts = torch.ones(4, 2, 16, device="npu"), torch.tensor([0, 1, 4], dtype=torch.int32, device="npu")
assert torch.equal(varlen_attn(x, x, x, starts, starts, 3, 3).cpu(), torch.ones(4, 2, 16))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
