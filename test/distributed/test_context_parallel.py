"""Context parallelism of PyTorch around the NPU's attention: results and gradients are those of whole sequences."""
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("torch.distributed.tensor.experimental._context_parallel", reason="this torch has its ring elsewhere")


def attend(rank, world, causal, balanced):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard

    torch.manual_seed(0)
    whole = [torch.randn(2, 4, 32, 16, requires_grad=True) for _ in range(3)]
    weight = torch.randn(2, 4, 32, 16)
    wanted = F.scaled_dot_product_attention(*whole, is_causal=causal)
    gradients = torch.autograd.grad((wanted * weight).sum(), whole)
    mesh = init_device_mesh("npu", (world,))
    _cp_options.enable_load_balance = balanced
    buffers = [*(value.detach().npu() for value in whole), weight.npu()]
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4):
        parts = [value.detach().clone().requires_grad_() for value in buffers[:3]]
        assert parts[0].shape[2] == 32 // world and parts[0].device.type == "npu"
        found = F.scaled_dot_product_attention(*parts, is_causal=causal)
        (found * buffers[3]).sum().backward()
        results = context_parallel_unshard(mesh, [found.detach(), *(value.grad for value in parts)], [2] * 4)
    for here, there in zip(results, [wanted, *gradients]):
        torch.testing.assert_close(here.cpu(), there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal, balanced", [(False, False), (True, False), (True, True)])
def test_equals_whole_sequences(two, causal, balanced):
    two.run(attend, causal, balanced)


def attend_with_dropout(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    parts = [torch.randn(1, 2, 8, 4, device="npu") for _ in range(3)]
    with context_parallel(init_device_mesh("npu", (world,)), buffers=parts, buffer_seq_dims=[2] * 3):
        with pytest.raises(NotImplementedError, match="no dropout"):
            F.scaled_dot_product_attention(*parts, is_causal=True, dropout_p=0.5)


def test_dropout_is_refused(two):
    two.run(attend_with_dropout)
