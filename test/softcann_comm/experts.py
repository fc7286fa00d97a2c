"""Operators of libopapi that multiply the experts' matrices beside the collectives of two communicators; runs in each rank."""
import pathlib
import sys

import hccl
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "softcann_op"))
from nn_client import Client

EP, TP, EXPERTS, ROWS, COLUMNS, HIDDEN = 2, 2, 4, 3, 8, 6
ACTIVATIONS = [lambda x: x, torch.nn.functional.gelu, torch.nn.functional.silu, torch.relu, lambda x: x * torch.sigmoid(1.702 * x)]


def mesh(place):
    """The client, names of this rank's two communicators, and where it is in them. Ranks of experts are neighbours."""
    ep, tp = place.rank % EP, place.rank // EP
    across = place.connect([tp * EP + i for i in range(EP)])
    along = place.connect([i * EP + ep for i in range(TP)])
    return Client(hccl.LIBRARIES), across, along, ep, tp


def numbers(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def close(found, wanted, dtype):
    torch.testing.assert_close(found, wanted.to(dtype), rtol=2e-2 if dtype == torch.bfloat16 else 2e-3, atol=2e-2)


def exchanged_and_gathered(place):
    call, across, along, ep, tp = mesh(place)
    local = EXPERTS // EP
    for shard, dtype, activation in ((0, torch.float16, 0), (1, torch.bfloat16, 1), (0, torch.bfloat16, 2), (1, torch.float16, 3),
                                     (1, torch.float16, 4)):
        # What each rank of experts has, whole: [experts, rows, columns].
        whole = [numbers(i, EXPERTS, TP * ROWS, COLUMNS).to(dtype) for i in range(EP)]
        x = whole[ep].chunk(TP, 2 if shard == 0 else 1)[tp].contiguous()
        weight, bias = numbers(10 + place.rank, local, COLUMNS, HIDDEN).to(dtype), numbers(20 + place.rank, local, HIDDEN)
        bias = bias.to(torch.float16 if dtype == torch.float16 else torch.float32)
        rows = torch.cat([part[ep * local:(ep + 1) * local] for part in whole], 1)
        product = rows.float() @ weight.float() + bias.float().unsqueeze(1)
        y1, y2, y3 = (torch.full_like(wanted, torch.nan).to(dtype) for wanted in (product, rows.float(), product))
        given = dict(x=x, weight=weight, biasOptional=bias, groupEp=across.name(), groupTp=along.name(),
                     epWorldSize=EP, tpWorldSize=TP, xShardType=shard, actType=activation, y1Out=y1)
        call.named("aclnnAlltoAllAllGatherBatchMatMul", y2OutOptional=y2, y3OutOptional=y3, **given)
        assert torch.equal(y2, rows), (shard, y2, rows)
        close(y3, product, dtype)
        close(y1, ACTIVATIONS[activation](product), dtype)
        first = y1.clone()
        call.named("aclnnAlltoAllAllGatherBatchMatMul", **given)   # without the optional results
        assert torch.equal(first, y1)


def scattered_and_exchanged(place):
    call, across, along, ep, tp = mesh(place)
    local = EXPERTS // EP
    for shard, dtype in ((0, torch.float16), (1, torch.bfloat16)):
        def factors(i, j):
            rank = j * EP + i
            return (numbers(rank, local, EP * TP * ROWS, HIDDEN).to(dtype), numbers(10 + rank, local, HIDDEN, COLUMNS).to(dtype))

        # The bias is of a rank of experts and, of columns, of one part.
        biases = [numbers(20 + i, local, COLUMNS).to(torch.float16 if dtype == torch.float16 else torch.float32) for i in range(EP)]
        sums = []   # of each rank of experts
        for i in range(EP):
            products = [torch.bmm(*(factor.float() for factor in factors(i, j))).to(dtype).float() for j in range(TP)]
            sums.append(sum(products) + biases[i].float().unsqueeze(1))
        mine = [part.unflatten(1, (EP, -1))[:, ep] for part in sums]   # what the experts' ranks give this one
        wanted = torch.cat(mine).chunk(TP, 2 if shard == 0 else 1)[tp]
        bias = biases[ep].chunk(TP, 1)[tp].contiguous() if shard == 0 else biases[ep]
        out = torch.full(wanted.shape, torch.nan, dtype=dtype)
        x, weight = factors(ep, tp)
        given = dict(x=x, weight=weight, biasOptional=bias, groupEp=across.name(), groupTp=along.name(),
                     epWorldSize=EP, tpWorldSize=TP, yShardType=shard, out=out)
        call.named("aclnnBatchMatMulReduceScatterAlltoAll", **given)
        close(out, wanted, dtype)
        for wrong, said in (({"epWorldSize": 4}, "have 2 and 2 ranks"), ({"groupTp": given["groupEp"]}, "are both"),
                            ({"yShardType": 2}, "0 and 1 are supported"), ({"out": out[1:]}, "out is"), ({"groupTp": "nobody"}, "nobody")):
            try:
                call.named("aclnnBatchMatMulReduceScatterAlltoAll", **{**given, **wrong})
            except RuntimeError as error:
                assert "161002" in str(error) and said in str(error), error
            else:
                raise AssertionError(wrong)


def summed_groups(place):
    comm, call = place.connect(), Client(hccl.LIBRARIES)
    rows, columns = (5, 0, 7), (4, 6, 3)

    def factors(rank, same):
        widths = [columns[0]] * 3 if same else columns
        x = [numbers(10 * rank + i, rows[i], 8).bfloat16() for i in range(3)]
        return x, [numbers(100 + 10 * rank + i, 8, widths[i]).bfloat16() for i in range(3)], [
            numbers(200 + 10 * rank + i, widths[i]) for i in range(3)]

    for split in range(4):
        same = split >= 2   # groups below each other have one width
        x, weight, bias = factors(place.rank, same)
        wanted = [sum((x[i].float() @ w[i].float() + b[i]).bfloat16().float() for x, w, b in (factors(r, same) for r in range(place.size)))
                  for i in range(3)]
        y = [torch.full_like(part, torch.nan).bfloat16() for part in wanted]
        if same:
            wanted, y = [torch.cat(wanted)], [torch.cat(y)]
        ends = [5, 5, 12] if split in (1, 3) else []
        call.named("aclnnGroupedMatMulAllReduce", x=[torch.cat(x)] if ends else x, weight=weight, bias=bias, groupListOptional=ends,
                   splitItem=split, group=comm.name(), reduceOp="sum", streamMode=1, y=y)
        for found, part in zip(y, wanted):
            close(found, part, torch.bfloat16)
    try:
        call.named("aclnnGroupedMatMulAllReduce", x=[torch.cat(x)], weight=weight, groupListOptional=[5, 4, 12], splitItem=3,
                   group=comm.name(), reduceOp="sum", y=y)
    except RuntimeError as error:
        assert "161002" in str(error) and "groupListOptional" in str(error), error
    else:
        raise AssertionError("ends that fall were taken")
