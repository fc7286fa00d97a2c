"""Tokens to their experts' ranks and back: what one rank would compute alone."""
import torch
import torch.distributed as dist

import torch_npu

EXPERTS, TOKENS, SIZE, K = 6, 5, 8, 2


def inputs(rank):
    torch.manual_seed(rank)
    ids = torch.stack([torch.randperm(EXPERTS)[:K] for _ in range(TOKENS)]).int()
    return torch.randn(TOKENS, SIZE), ids, torch.rand(TOKENS, K)


def there_and_back(rank, world, quant_mode):
    x, ids, scales = (t.npu() for t in inputs(rank))
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(torch.npu.current_device())
    common = dict(group_ep=name, ep_world_size=world, ep_rank_id=rank, moe_expert_num=EXPERTS)
    active = torch.tensor([True, True, False, True, True]).npu()
    rows, dynamic, index, counts, ends, tp, _ = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, x_active_mask=active, quant_mode=quant_mode,
                                                                                        **common)
    assert rows.shape[0] == TOKENS * world * min(EXPERTS // world, K) and index.shape[0] == 128 * rows.shape[0]
    values = rows.float() * dynamic.unsqueeze(1) if quant_mode else rows
    expert = torch.arange(EXPERTS // world).repeat_interleave(counts.cpu()) + rank * (EXPERTS // world)
    made = values.clone()
    made[:len(expert)] *= (expert + 1).npu().unsqueeze(1)  # expert e multiplies by e + 1
    out = torch_npu.npu_moe_distribute_combine_v2(made, ids, index, ends, scales, x_active_mask=active, shared_expert_x=x, **common)
    return out.cpu(), len(expert)


def test_tokens_come_back_from_their_experts(two):
    for quant_mode, tolerance in ((0, 1e-5), (2, 0.5)):
        results = two.run(there_and_back, quant_mode)
        assert sum(count for _, count in results) == 2 * 4 * K  # one token of five stays
        for rank, (out, _) in enumerate(results):
            x, ids, scales = inputs(rank)
            factor = ((ids + 1) * scales).sum(1) * torch.tensor([1, 1, 0, 1, 1])
            torch.testing.assert_close(out, x * (factor + 1).unsqueeze(1), rtol=1e-5, atol=tolerance)


def equals_the_composition(rank, world):
    """The operators of CANN against torch.distributed's collectives and torch's operators (torch_npu._cpu_ops), option by option."""
    from torch_npu import _cpu_ops

    x, ids, weights = inputs(rank)
    special = ids.clone()
    special[0, 0], special[1, 1], special[2, 0] = EXPERTS, EXPERTS + 1, EXPERTS + 2  # zero, copy, constant
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(torch.npu.current_device())
    common = dict(group_ep=name, ep_world_size=world, ep_rank_id=rank, moe_expert_num=EXPERTS)
    active = torch.rand(TOKENS, K, generator=torch.Generator().manual_seed(rank)) > 0.3
    torch.manual_seed(9)
    more, constant, gamma = torch.randn(3, 1, SIZE), torch.randn(TOKENS, SIZE), torch.rand(SIZE)
    plain = dict(zero_expert_num=1, copy_expert_num=1, const_expert_num=1)
    made_of = dict(ori_x=x.npu(), const_expert_alpha_1=more[0].npu(), const_expert_alpha_2=more[1].npu(), const_expert_v=more[2].npu())
    smooth = torch.rand(EXPERTS, SIZE).npu()
    for options, ends in (
            ({}, {}), (dict(x_active_mask=active.npu()), dict(x_active_mask=active.npu())), (dict(expert_scales=weights.npu()), {}),
            (dict(quant_mode=2, scales=smooth), {}), (dict(expert_token_nums_type=0, global_bs=8 * world), dict(comm_quant_mode=2)),
            (plain, {**plain, **made_of})):
        sent_ids = (special if options is plain else ids).npu()
        dtype = torch.bfloat16 if "scales" in options else torch.float32
        there = [function(x.to(dtype).npu(), sent_ids, **common, **options) for function in (
            torch_npu.npu_moe_distribute_dispatch_v2, _cpu_ops.find("npu_moe_distribute_dispatch_v2"))]
        for i in (0, 1, 3, 4, 6):  # the index and the counts of TP are for the way back alone
            count = there[0][4][-1].item() if i in (0, 1, 6) else None
            torch.testing.assert_close(there[0][i][:count].float(), there[1][i][:count].float(), rtol=0, atol=1e-3)
        rows = there[0][0].float()
        call = (rows, sent_ids, there[0][2], there[0][4], weights.npu())
        back = [function(*call, **common, **ends) for function in (
            torch_npu.npu_moe_distribute_combine_v2, _cpu_ops.find("npu_moe_distribute_combine_v2"))]
        torch.testing.assert_close(*back)
        normed = [function(*call, constant.npu(), gamma.npu(), **common, **ends) for function in (
            torch_npu.npu_moe_distribute_combine_add_rms_norm, _cpu_ops.find("npu_moe_distribute_combine_add_rms_norm"))]
        for found, expected in zip(*normed):
            torch.testing.assert_close(found, expected)
    first = torch_npu.npu_moe_distribute_dispatch(x.npu(), ids.npu(), **common)
    assert first[2].numel() == TOKENS * K
    out = torch_npu.npu_moe_distribute_combine(first[0], ids.npu(), first[2], first[4], weights.npu(), **common)
    torch.testing.assert_close(out.cpu(), x * weights.sum(1, keepdim=True))


def test_each_option_gives_what_the_composition_gives(two):
    two.run(equals_the_composition)
