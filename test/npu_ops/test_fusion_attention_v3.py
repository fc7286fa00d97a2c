"""The third version of fused attention: its gradient as an operator, overloads with out, dropout that repeats."""

import pytest
import torch

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


def randn(device, *shapes):
    torch.manual_seed(0)
    return [torch.randn(shape).to(device).requires_grad_() for shape in shapes]


@DEVICES
@pytest.mark.parametrize("keep_prob", [1.0, 0.5])
def test_gradient_is_that_of_autograd(device, keep_prob):
    q, k, v = randn(device, *[(2, 4, 6, 8)] * 3)
    torch.manual_seed(3)
    out, top, total, _, seed, offset = torch_npu.npu_fusion_attention_v3(q, k, v, 4, "BNSD", scale=0.4, keep_prob=keep_prob)
    grad = torch.randn(out.shape).to(device)
    out.backward(grad)
    plain = [t.detach() for t in (q, k, v)]
    options = dict(softmax_max=top, softmax_sum=total, attention_in=out.detach(), scale_value=0.4, keep_prob=keep_prob, seed=seed, offset=offset)
    found = torch_npu.npu_fusion_attention_grad_v3(*plain, grad, 4, "BNSD", **options)
    for ours, leaf in zip(found, (q, k, v)):
        torch.testing.assert_close(ours, leaf.grad, rtol=1e-4, atol=1e-5)
    assert [t.numel() for t in found[3:]] == [0, 0]
    given = [torch.empty_like(t) for t in plain]
    workspace = torch_npu._npu_fusion_attention_grad_v3_get_max_workspace(*plain, grad, 4, "BNSD", **options)
    again = torch_npu.npu_fusion_attention_grad_v3(*plain, grad, 4, "BNSD", **options, workspace=workspace, out=given)
    for ours, theirs, mine in zip(given, found, again):
        assert torch.equal(ours, theirs) and mine.data_ptr() == ours.data_ptr()


@DEVICES
def test_packed_sequences_and_out(device):
    tensors = [t.detach() for t in randn(device, *[(7, 2, 8)] * 3)]
    ends = torch.tensor([3, 7])
    expected = torch_npu.npu_fusion_attention_v3(*tensors, 2, "TND", scale=0.4, actual_seq_qlen=ends, actual_seq_kvlen=ends)
    given = list(torch_npu._npu_fusion_attention_v3_infer_output(*tensors, 2, "TND"))
    workspace = torch.empty(0, dtype=torch.uint8, device=device)
    found = torch_npu.npu_fusion_attention_v3(
        *tensors, 2, "TND", scale=0.4, actual_seq_qlen=ends, actual_seq_kvlen=ends, workspace=workspace, out=given)
    assert len(found) == 6
    for ours, theirs in zip(given, expected):
        assert torch.equal(ours, theirs)
    dq, dk, dv, *_ = torch_npu.npu_fusion_attention_grad_v3(
        *tensors, tensors[0], 2, "TND", softmax_max=expected[1], softmax_sum=expected[2], attention_in=expected[0], scale_value=0.4,
        actual_seq_qlen=ends, actual_seq_kvlen=ends)
    leaves = [t.clone().requires_grad_() for t in tensors]
    torch_npu.npu_fusion_attention_v3(*leaves, 2, "TND", scale=0.4, actual_seq_qlen=ends, actual_seq_kvlen=ends)[0].backward(tensors[0])
    for ours, leaf in zip((dq, dk, dv), leaves):
        torch.testing.assert_close(ours, leaf.grad, rtol=1e-4, atol=1e-5)
