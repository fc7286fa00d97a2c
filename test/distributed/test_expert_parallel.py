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
