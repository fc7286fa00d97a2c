"""Indexing, gathering, scattering and embedding: what the kernels give and refuse."""
import pytest
import torch
from nn_client import close


def test_embedding(call):
    weight, index = torch.randn(10, 6), torch.tensor([[1, 3, 3], [9, 0, 1]])
    out = torch.empty(2, 3, 6)
    call("aclnnEmbedding", weight, index, out)
    close(out, weight[index])
    grad, dw = torch.randn(2, 3, 6), torch.full((10, 6), 9.0)
    call("aclnnEmbeddingDenseBackward", grad, index, 10, 2**64 - 1, False, dw)
    close(dw, torch.zeros(10, 6).index_put_((index,), grad, accumulate=True))
    with pytest.raises(RuntimeError, match="index out of range|out of bounds"):
        call("aclnnEmbedding", weight, torch.tensor([10]), torch.empty(1, 6))


def test_index(call):
    x, rows = torch.randn(5, 6), torch.tensor([4, 0, 0])
    absent = torch.empty(0, dtype=torch.int64)
    out = torch.empty(5, 3)
    call("aclnnIndex", x, [absent, rows], out)
    close(out, x[:, rows])
    target = x.clone()
    call("aclnnIndexPutImpl", target, [rows, rows], torch.ones(3), True, False)
    close(target, x.index_put((rows, rows), torch.ones(3), accumulate=True))
    unchanged = x.clone()
    call("aclnnIndexPutImpl", unchanged, [absent], torch.ones(()), False, False)
    close(unchanged, x)
    out = torch.empty(3, 6)
    call("aclnnIndexSelect", x, 0, rows, out)
    close(out, x[rows])
    out, signed = torch.empty(5, 2, 2), torch.tensor([[-6, -1], [0, 5]])
    call("aclnnGatherV2", x, 1, signed, out)  # negative ones count from the end
    close(out, x[:, signed])
    with pytest.raises(RuntimeError, match="507035.*out of"):
        call("aclnnGatherV2", x, 1, signed - 1, out)
    with pytest.raises(RuntimeError, match="507035.*out of"):
        call("aclnnGatherV3", x, 1, signed, 0, 0, out)
    index = torch.randint(5, (2, 6))
    out = torch.empty(2, 6)
    call("aclnnGather", x, 0, index, out)
    close(out, x.gather(0, index))


def test_scatter(call):
    x, source, index = torch.zeros(4, 5), torch.randn(2, 5), torch.tensor([[0, 1, 2, 3, 0], [3, 2, 1, 0, 2]])
    out = torch.empty(4, 5)
    call("aclnnScatter", x, 0, index, source, 0, out)
    close(out, x.scatter(0, index, source))
    call("aclnnScatterAdd", x, 0, index, source, out)
    close(out, x.scatter_add(0, index, source))
    call("aclnnScatterValue", x, 0, index, 3.0, 0, out)
    close(out, x.scatter(0, index, 3.0))
    call("aclnnScatterReduce", x, 0, index, source, 3, True, out)
    close(out, x.scatter_reduce(0, index, source, "amax"))
    call("aclnnIndexAdd", torch.ones(4, 5), 0, torch.tensor([1, 1]), source, 2.0, out)
    close(out, torch.ones(4, 5).index_add(0, torch.tensor([1, 1]), source, alpha=2))


def test_results_of_unknown_size(call):
    x = torch.tensor([[0.0, 2.0, 2.0], [5.0, 0.0, 1.0]])
    out = torch.full((6, 2), -1)
    assert call("aclnnNonzero", x, out) == [[4, 2]]
    assert torch.equal(out.view(-1)[:8].view(4, 2), x.nonzero())
    picked = torch.empty(6)
    assert call("aclnnMaskedSelect", x, x > 1, picked) == [[3]]
    close(picked[:3], torch.tensor([2.0, 2.0, 5.0]))
    values, inverse, counts = torch.empty(6), torch.empty(2, 3, dtype=torch.int64), torch.empty(6, dtype=torch.int64)
    shapes = call("aclnnUnique2", x, True, True, True, values, inverse, counts)
    assert shapes == [[4], [2, 3], [4]]
    close(values[:4][inverse], x)
    assert counts[:4].tolist() == [2, 1, 2, 1]


def test_slices_and_elements_are_added(call):
    var, indices = torch.zeros(4, 3), torch.tensor([[1, 3], [1, 0]], dtype=torch.int32)
    updates = torch.randn(2, 2, 3)
    call.named("aclnnTfScatterAdd", varRef=var, indices=indices, updates=updates)
    close(var, torch.zeros(4, 3).index_add(0, indices.flatten().long(), updates.view(4, 3)))
    whole = torch.ones(4, 3, dtype=torch.int8)
    call.named("aclnnTfScatterAdd", varRef=whole, indices=torch.tensor([[3, 2], [3, 2], [0, 0]]), updates=torch.tensor([5, 6, 7]).to(torch.int8))
    assert whole[3, 2] == 12 and whole[0, 0] == 8 and whole.sum() == 12 + 18
    with pytest.raises(RuntimeError, match="updates"):
        call.named("aclnnTfScatterAdd", varRef=var, indices=indices, updates=torch.ones(5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int8])
def test_slices_scattered_one_after_the_other(call, dtype):
    var, indices = torch.randint(1, 9, (4, 3)).to(dtype), torch.tensor([[3, 0], [3, 1]])
    updates = torch.randint(1, 4, (2, 2, 3)).to(dtype)
    functions = {"Max": torch.maximum, "Min": torch.minimum, "Mul": torch.mul,
                 "Div": lambda a, b: a / b if dtype.is_floating_point else torch.div(a, b, rounding_mode="trunc")}
    for name, function in functions.items():
        found, wanted = var.clone(), var.clone()
        for place, update in zip(indices.view(-1).tolist(), updates.view(4, 3)):
            wanted[place] = function(wanted[place], update)
        call.named("aclnnScatter" + name, varRef=found, indices=indices, updates=updates)
        close(found, wanted)
        with pytest.raises(RuntimeError, match="161002.*updates"):
            call.named("aclnnScatter" + name, varRef=found, indices=indices, updates=updates[0])
        with pytest.raises(RuntimeError, match="out of"):
            call.named("aclnnScatter" + name, varRef=found, indices=indices + 1, updates=updates)
