"""torch.distributed._shard.sharded_tensor on NPUs."""
import pytest
import torch


def moves(rank, world):
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec

    spec = ChunkShardingSpec(dim=0, placements=[f"rank:{r}/npu:{r}" for r in range(world)])
    there = sharded_tensor.rand(spec, 4 * world, 3)
    part = there.local_shards()[0].tensor
    assert part.device == torch.device("npu", rank)
    here = there.cpu()
    assert here.local_shards()[0].tensor.equal(part.cpu())
    for back in (here.npu(), here.npu(rank), here.npu(f"npu:{rank}"), here.to("npu"), here.to(torch.device("npu"), torch.float32)):
        shard = back.local_shards()[0]
        assert shard.tensor.device == shard.metadata.placement.device() == part.device
        assert shard.tensor.equal(part) and back.size() == there.size()
    assert here.to("npu", torch.float16).local_shards()[0].tensor.dtype == torch.float16
    with pytest.raises(ValueError, match=f"the current device is npu:{rank}, got {1 - rank}"):
        here.npu(1 - rank)


def test_moves(two):
    two.run(moves)
