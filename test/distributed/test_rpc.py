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
    with pytest.raises(RuntimeError, match="no device map of it"):
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
        options.set_device_map("other", {2: 0})
    with pytest.raises(ValueError, match="npu:0 is mapped to npu:1 of other already, so not to npu:2"):
        options.set_device_map("other", {0: 2})
    with pytest.raises(ValueError, match="are NPUs, got cuda:0"):
        options.set_devices(["cuda:0"])
    with pytest.raises(ValueError, match="are NPUs, got cpu"):
        options.set_devices(["cpu"])


def start(rank, world, store, maps):
    import torch.distributed.rpc as rpc

    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    torch.npu.set_device(rank)
    options = NPUTensorPipeRpcBackendOptions(init_method=f"file://{store}", device_maps=maps)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world, backend=rpc.BackendType.NPU_TENSORPIPE, rpc_backend_options=options)
    return rpc


def looked_at(tensors, words):
    """Where they are at the worker that is asked, and something new of both kinds."""
    import torch.distributed.rpc as rpc

    first, second = tensors["first"], tensors["second"]
    return [str(first.device), str(second.device), first.is_contiguous(), words, rpc.get_worker_info().name], first * 2, second + 1


def elsewhere():
    return torch.ones(1, device="npu:1")   # worker0's device is npu:0


def with_maps(rank, world, store):
    other, theirs = f"worker{1 - rank}", f"npu:{1 - rank}"
    rpc = start(rank, world, store, {other: {rank: 1 - rank}})
    ours = f"npu:{rank}"
    x = torch.arange(6.0, device=ours).view(2, 3)
    assert rpc.rpc_sync(other, torch.add, (x, 1)).tolist() == [[1, 2, 3], [4, 5, 6]]
    told, first, second = rpc.rpc_async(other, looked_at, ({"first": x.t(), "second": torch.ones(2)}, "both")).wait()
    assert told == [theirs, "cpu", False, "both", other]
    assert (str(first.device), first.tolist()) == (ours, (x.t() * 2).tolist())
    assert (str(second.device), second.tolist()) == ("cpu", [2, 2])
    halves = rpc.rpc_sync(other, torch.add, (torch.ones(3, dtype=torch.bfloat16, device=ours), 1))
    assert (halves.dtype, halves.device, halves.tolist()) == (torch.bfloat16, torch.device(ours), [2, 2, 2])
    assert rpc.rpc_sync(other, torch.mul, (torch.ones(0, 4, device=ours), 2)).shape == (0, 4)
    held = rpc.remote(other, torch.mul, (x, 3))
    assert (str(held.to_here().device), held.to_here().tolist()) == (ours, (x * 3).tolist())
    with pytest.raises(RuntimeError, match=f"a tensor of {theirs} is sent to worker {other}, for which there is no device map"):
        rpc.rpc_sync(other, torch.add, (x.to(theirs), 1))
    if rank == 1:
        with pytest.raises(RuntimeError, match=r"npu:1 which are not among the expected device\(s\) npu:0"):
            rpc.rpc_sync(other, elsewhere)
    rpc.shutdown()


def test_tensors_of_npus(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(with_maps, str(tmp_path / "store"))


def placed(x):
    return str(x.device), torch.ones(1, device=x.device), torch.ones(1)


def over_the_cpu(rank, world, store):
    other = f"worker{1 - rank}"
    rpc = start(rank, world, store, {other: {"cpu": 1 - rank} if rank == 0 else {rank: "cpu"}})
    x = torch.ones(2, device="cpu" if rank == 0 else "npu:1")
    there, theirs, plain = rpc.rpc_sync(other, placed, (x,))
    assert (there, str(theirs.device)) == (("npu:1", "cpu") if rank == 0 else ("cpu", "npu:1"))
    assert str(plain.device) == ("cpu" if rank == 0 else "npu:1")   # the map turned round, where it leads from the CPU
    rpc.shutdown()


def test_maps_with_the_cpu(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(over_the_cpu, str(tmp_path / "store"))


def product(x, y):
    return (x * y).sin()


def gradients(rank, world, store):
    """Through two workers and back, both ways at once."""
    import torch.distributed.autograd as dist_autograd

    other = f"worker{1 - rank}"
    rpc = start(rank, world, store, {other: {rank: 1 - rank}})
    torch.manual_seed(rank)
    x, y = (torch.randn(2, 3, device=f"npu:{rank}", requires_grad=True) for _ in range(2))
    unused = torch.ones(1, requires_grad=True)
    for _ in range(2):
        with dist_autograd.context() as context:
            once = rpc.rpc_sync(other, product, (x, y)) * 2
            twice = rpc.remote(other, product, (once, y)).to_here()
            dist_autograd.backward(context, [twice.sum()], retain_graph=True)
            found = dist_autograd.get_gradients(context)
        x.grad = y.grad = None
        product(product(x, y) * 2, y).sum().backward()
        torch.testing.assert_close(found[x], x.grad)
        torch.testing.assert_close(found[y], y.grad)
        assert found[x].device == x.device and unused not in found and len(found) == 2
    rpc.shutdown()


def test_distributed_autograd(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(gradients, str(tmp_path / "store"))


class Layer(torch.nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        self.layer = layer.to(device)

    def forward(self, x):
        return self.layer(x)

    def gradients(self, context):
        import torch.distributed.autograd as dist_autograd

        found = dist_autograd.get_gradients(context)
        return [found[parameter] for parameter in self.layer.parameters()]


def layers_elsewhere(rank, world, store):
    """Products that take a while are asked for their gradients as soon as the backward has been started."""
    import torch.distributed.autograd as dist_autograd

    rpc = start(rank, world, store, {f"worker{other}": {rank: other} for other in range(world)})
    if rank == 0:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(1200, 1200).to("npu:0") for _ in range(world - 1)]
        remote = [rpc.remote(f"worker{i + 1}", Layer, (layer, f"npu:{i + 1}")) for i, layer in enumerate(layers)]
        first = y = torch.randn(2500, 1200, device="npu:0")
        torch.nn.Sequential(*layers)(first).sum().backward()
        with dist_autograd.context() as context:
            for layer in remote:
                y = layer.rpc_sync().forward(y)
            dist_autograd.backward(context, [y.sum()])
            found = [layer.rpc_async().gradients(context) for layer in remote]
            for layer, gradients in zip(layers, found):
                for gradient, parameter in zip(gradients.wait(), layer.parameters()):
                    torch.testing.assert_close(gradient, parameter.grad)
    rpc.shutdown()


def test_gradients_are_complete_when_they_are_asked_for(tmp_path):
    with Ranks(3, join=False) as ranks:
        ranks.run(layers_elsewhere, str(tmp_path / "store"))


def joined(rank, world, store):
    import torch.distributed as dist
    import torch.distributed.rpc as rpc

    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    dist.init_process_group("gloo", init_method=f"file://{store}0", rank=rank, world_size=world)
    torch.npu.set_device(rank)
    options = NPUTensorPipeRpcBackendOptions(init_method=f"file://{store}")
    if rank == 1:
        options.set_device_map("worker0", {1: 0})
        dist.barrier()
    rpc.init_rpc(f"worker{rank}", rank=rank, backend=rpc.BackendType.NPU_TENSORPIPE, rpc_backend_options=options)
    if rank == 0:
        dist.barrier()
    else:
        doubled = rpc.rpc_sync("worker0", torch.mul, (torch.ones(2, device="npu:1"), 2))
        assert (str(doubled.device), doubled.tolist()) == ("npu:1", [2, 2])
    dist.barrier()
    rpc.shutdown()
    dist.destroy_process_group()


def test_workers_join_and_leave(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(joined, str(tmp_path / "store"))


def faulty(rank, world, store):
    import torch.distributed.rpc as rpc

    backend = rpc.BackendType.NPU_FAULTY_TENSORPIPE
    options = rpc.backend_registry.construct_rpc_backend_options(
        backend, init_method=f"file://{store}", messages_to_fail=["SCRIPT_CALL"], num_fail_sends=1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world, backend=backend, rpc_backend_options=options)
    with pytest.raises((RuntimeError, UnicodeDecodeError)):   # PyTorch puts the pickled call into the message
        rpc.rpc_sync(f"worker{1 - rank}", torch.add, (torch.ones(2), 3))
    assert rpc.rpc_sync(f"worker{1 - rank}", torch.add, (torch.ones(2), 3)).tolist() == [4, 4]   # num_fail_sends is 1
    rpc.shutdown()


def test_messages_that_fail_on_purpose(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(faulty, str(tmp_path / "store"))


def refused(rank, world, store):
    with pytest.raises(ValueError, match="the device map of worker worker0 for worker1 names npu:7, which worker1 does not have: npu:0, npu:1"):
        start(rank, world, store, {f"worker{1 - rank}": {rank: 7}})


def test_a_map_to_a_device_that_is_not_there(tmp_path):
    with Ranks(2, join=False) as ranks:
        ranks.run(refused, str(tmp_path / "store"))
