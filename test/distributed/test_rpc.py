"""torch.distributed.rpc with the published backend NPU_TENSORPIPE."""
import operator

import pytest
import torch
from rank_pool import Ranks


def called(rank, world, store):
    import torch.distributed.rpc as rpc

    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    options = NPUTensorPipeRpcBackendOptions(init_method=f"file://{store}", devices=[rank])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world, backend=rpc.BackendType.NPU_TENSORPIPE, rpc_backend_options=options)
    other = f"worker{1 - rank}"
    assert rpc.rpc_sync(other, torch.add, (torch.ones(2), 3)).tolist() == [4, 4]
    assert rpc.rpc_async(other, operator.add, (5, 3)).wait() == 8
    assert rpc.remote(other, torch.add, (torch.ones(1), rank)).to_here().item() == 1 + rank
    with pytest.raises(RuntimeError, match="only supports CPU tensors"):
        rpc.rpc_sync(other, torch.add, (torch.ones(2, device="npu"), 3))
    rpc.shutdown()


def test_calls(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(called, str(tmp_path / "store"))


def test_options():
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    options = NPUTensorPipeRpcBackendOptions(device_maps={"other": {0: 1}}, devices=["npu:0"])
    assert (options.num_worker_threads, options.rpc_timeout, options.init_method) == (16, 60, "env://")
    options.set_device_map("other", {"npu:1": torch.device("npu", 0)})
    assert options.device_maps == {"other": {torch.device("npu", 0): torch.device("npu", 1), torch.device("npu", 1): torch.device("npu", 0)}}
    options.set_devices([0, 1])
    assert options.devices == [torch.device("npu", 0), torch.device("npu", 1)]
    with pytest.raises(ValueError, match="to the same one"):
        options.set_device_map("other", {0: 0})
    with pytest.raises(ValueError, match="are NPUs, got cuda:0"):
        options.set_devices(["cuda:0"])


def test_device_maps_are_refused(tmp_path):
    import torch.distributed.rpc as rpc

    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    options = NPUTensorPipeRpcBackendOptions(init_method=f"file://{tmp_path / 'store'}", device_maps={"me": {0: 0}})
    with pytest.raises(NotImplementedError, match="tensors of the CPU only"):
        rpc.init_rpc("me", rank=0, world_size=1, backend=rpc.BackendType.NPU_TENSORPIPE, rpc_backend_options=options)
