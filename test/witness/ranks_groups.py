"""Two ranks of the published client use groups, registered memory and resumed communicators: python ranks_groups.py. Run by
test_published_client.py."""
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_npu  # noqa: F401

RANKS = 2


def coalesced(rank):
    """HcclGroupStart and HcclGroupEnd around several collectives, and around parts of different lengths."""
    device = torch.device("npu", rank)
    first, second = torch.ones(3, device=device), torch.full((5,), float(rank), device=device)
    with dist._coalescing_manager(device=device):
        dist.all_reduce(first)
        dist.all_reduce(second)
    assert first.tolist() == [2] * 3 and second.tolist() == [1] * 5
    parts = [torch.empty(3 + r, device=device) for r in range(RANKS)]
    dist.all_gather(parts, torch.arange(3.0 + rank, device=device) + 10 * rank)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [10, 11, 12, 13]]


def window(rank, backend):
    """HcclCommRegister and HcclCommExchangeMem: memory that the peers know of, which collectives may use."""
    backend._window_register_and_exchange(1 << 16, [1 - rank])
    memory = backend._get_window_mem()
    assert memory.device == torch.device("npu", rank) and memory.numel() * memory.element_size() == 1 << 16
    ones = memory.view(torch.uint8)[:400].view(torch.float32)
    ones.fill_(rank + 1)
    dist.all_reduce(ones)
    assert ones.tolist() == [3] * 100


def resumed(rank, backend):
    """HcclCommResume, as after a step that was abandoned."""
    backend.resume_hccl_comm(rank)
    x = torch.full((4,), float(rank), device="npu")
    dist.all_reduce(x)
    assert x.tolist() == [1] * 4


def one_rank(rank, path):
    warnings.simplefilter("ignore")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    dist.all_reduce(torch.ones(1, device="npu"))
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    coalesced(rank)
    window(rank, backend)
    resumed(rank, backend)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(one_rank, args=(os.path.join(folder, "store"),), nprocs=RANKS)
    print("passed")
