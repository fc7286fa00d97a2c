"""Networks, optimizers and mixed precision through the published client, against the CPU: python networks.py.

Run by test_published_client.py. Knows nothing of this repository. A failure ends the process and says in which case.
"""
import copy
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import torch_npu  # noqa: F401

warnings.simplefilter("ignore")
DEVICE = torch.device("npu:0")


def same(actual, expected, tolerance=1e-3):
    torch.testing.assert_close(actual.detach().float().cpu(), expected.detach().float(), rtol=tolerance, atol=tolerance)


def outputs_and_gradients(function, inputs, parameters):
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    results = [t for t in torch.utils._pytree.tree_leaves(function(*inputs)) if isinstance(t, torch.Tensor)]
    torch.manual_seed(1)
    sum((t.float() * torch.randn(t.shape).to(t.device)).sum() for t in results).backward()
    return results + [x.grad for x in [*inputs, *parameters] if x.requires_grad]


def compare(module, *inputs, tolerance=1e-3):
    twin = copy.deepcopy(module).to(DEVICE)
    expected = outputs_and_gradients(module, inputs, module.parameters())
    actual = outputs_and_gradients(twin, [x.to(DEVICE) for x in inputs], twin.parameters())
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        same(a, e, tolerance)


def recurrent():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for settings in ({}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True}, {"bias": False}):
            compare(kind(8, 16, **settings), torch.randn(5, 3, 8))
    for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
        compare(kind(8, 16), torch.randn(3, 8))


def sequences_of_several_lengths():
    for layers in (1, 2):
        module, x = nn.LSTM(8, 16, layers), torch.randn(5, 3, 8)

        def run(module, x):
            result, _ = module(nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2]))
            return nn.utils.rnn.pad_packed_sequence(result)[0]
        twin = copy.deepcopy(module).to(DEVICE)
        expected, actual = run(module, x), run(twin, x.to(DEVICE))
        same(actual, expected)
        expected.square().sum().backward()
        actual.square().sum().backward()
        for a, e in zip(twin.parameters(), module.parameters()):
            same(a.grad, e.grad)


def attention():
    compare(nn.TransformerEncoderLayer(16, 4, 32, dropout=0, activation="gelu", norm_first=True), torch.randn(6, 2, 16))
    compare(nn.TransformerDecoderLayer(16, 4, 32, dropout=0), torch.randn(6, 2, 16), torch.randn(4, 2, 16))
    q, k, v = (torch.randn(2, 4, 33, 16) for _ in range(3))
    allowed = torch.rand(2, 1, 33, 33) > 0.3
    allowed |= torch.eye(33, dtype=torch.bool)
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.float16, 2e-2), (torch.bfloat16, 6e-2)):
        for mask, causal in ((None, False), (None, True), (allowed, False)):
            expected = outputs_and_gradients(lambda *x: F.scaled_dot_product_attention(*x, attn_mask=mask, is_causal=causal),
                                             (q, k, v), ())
            on_npu = None if mask is None else mask.to(DEVICE)
            actual = outputs_and_gradients(lambda *x: F.scaled_dot_product_attention(*x, attn_mask=on_npu, is_causal=causal),
                                           [t.to(DEVICE, dtype) for t in (q, k, v)], ())
            for a, e in zip(actual, expected):
                same(a, e, tolerance)


def layers():
    image = torch.randn(2, 4, 9, 9)
    for module in (nn.Conv2d(4, 8, 3, groups=4, stride=2), nn.Conv2d(4, 8, 3, dilation=2, padding="same"),
                   nn.ConvTranspose2d(4, 6, 3, stride=2),
                   nn.BatchNorm2d(4), nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4), nn.LocalResponseNorm(2), nn.MaxPool2d(3, 2, 1),
                   nn.AdaptiveAvgPool2d(3), nn.AdaptiveMaxPool2d(3),
                   nn.Upsample(scale_factor=2, mode="bilinear"), nn.PReLU(4), nn.CircularPad2d(1),
                   nn.Unfold(3), nn.RMSNorm(9)):
        compare(module, image)
    compare(nn.Conv3d(2, 4, 3), torch.randn(1, 2, 5, 5, 5))
    compare(nn.EmbeddingBag(10, 4), torch.randint(10, (3, 5)))
    compare(nn.Bilinear(3, 4, 5), torch.randn(2, 3), torch.randn(2, 4))
    x, labels = torch.randn(5, 6), torch.randint(6, (5,))
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.MultiMarginLoss()):
        compare(loss, x, labels)
    compare(nn.CTCLoss(), torch.randn(12, 3, 6).log_softmax(2), torch.randint(1, 6, (3, 4)), torch.full((3,), 12), torch.full((3,), 4))


def norms_and_distances():
    x, y = torch.randn(5, 6), torch.randn(4, 6)
    for p in (0.5, 1, 2, 3, 4, 5.5, -1, float("inf")):
        compare(lambda_module(lambda x: torch.linalg.vector_norm(x, p, 1)), x)
        if p > 0:
            compare(lambda_module(lambda x, y: torch.cdist(x, y, p=p).square()), x, y)
    same(torch.randn(2, 5, 0).to(DEVICE) @ torch.randn(0, 4).to(DEVICE), torch.zeros(2, 5, 4))


def lambda_module(function):
    module = nn.Module()
    module.forward = function
    return module


def optimizers():
    settings = {"Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {"weight_decay": 0.1}, "Adamax": {},
                "ASGD": {}, "NAdam": {},
                "RAdam": {}, "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {}, "SGD": {"momentum": 0.9, "nesterov": True}}
    cases = [(getattr(torch.optim, name), {**arguments, "foreach": foreach}) for name, arguments in settings.items()
             for foreach in (False, True)]
    cases += [(torch.optim.Adam, {"fused": True}), (torch.optim.AdamW, {"fused": True, "weight_decay": 0.1})]
    data, target = torch.randn(10, 8), torch.randn(10, 3)
    for kind, arguments in cases:
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        twin = copy.deepcopy(model).to(DEVICE)
        for net, x, y in ((model, data, target), (twin, data.to(DEVICE), target.to(DEVICE))):
            optimizer = kind(net.parameters(), lr=0.01, **arguments)
            for _ in range(3):
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
        for a, e in zip(twin.parameters(), model.parameters()):
            same(a, e)


def mixed_precision():
    for dtype in (torch.float16, torch.bfloat16):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 16),
                              nn.LayerNorm(16), nn.Linear(16, 4))
        twin = copy.deepcopy(model).to(DEVICE)
        x, y = torch.randn(8, 3, 8, 8), torch.randint(4, (8,))
        ours, theirs = torch.optim.SGD(twin.parameters(), 0.05), torch.optim.SGD(model.parameters(), 0.05)
        scaler = torch.amp.GradScaler("npu", init_scale=1024.0)
        for _ in range(4):
            expected = F.cross_entropy(model(x), y)
            theirs.zero_grad()
            expected.backward()
            theirs.step()
            ours.zero_grad()
            with torch.autocast("npu", dtype=dtype):
                result = twin(x.to(DEVICE))
                loss = F.cross_entropy(result, y.to(DEVICE))
            assert result.dtype == dtype
            same(loss, expected, 3e-2)
            scaler.scale(loss).backward()
            scaler.unscale_(ours)
            nn.utils.clip_grad_norm_(twin.parameters(), 100.0)
            scaler.step(ours)
            scaler.update()
        before = twin[0].weight.detach().clone()
        ours.zero_grad()
        scaler.scale((twin(x.to(DEVICE)) * float("inf")).sum()).backward()
        scaler.step(ours)
        scaler.update()
        assert scaler.get_scale() == 512.0 and twin[0].weight.equal(before)


def memory_and_loading():
    pinned = torch.randn(1000).pin_memory()
    assert pinned.is_pinned()
    same(pinned.to(DEVICE, non_blocking=True), pinned)
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(64, 1), torch.arange(64))
    loaded = torch.utils.data.DataLoader(data, 8, shuffle=True, num_workers=1, pin_memory=True)
    assert sum((x.to(DEVICE, non_blocking=True).sum() + y.to(DEVICE, non_blocking=True).sum()).item() for x, y in loaded) == 2 * 63 * 32
    before = torch.npu.memory_allocated()
    kept = torch.empty(1 << 20, device=DEVICE)
    assert torch.npu.memory_allocated() - before >= 4 << 20 and torch.npu.max_memory_allocated() >= 4 << 20
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        side.wait_stream(torch.npu.default_stream())
        kept.fill_(2)
        kept.record_stream(side)
    torch.npu.current_stream().wait_stream(side)
    assert kept.sum().item() == 2 << 20
    state = torch.npu.get_rng_state()
    first = torch.randn(100, device=DEVICE)
    torch.npu.set_rng_state(state)
    assert first.equal(torch.randn(100, device=DEVICE))


if __name__ == "__main__":
    for case in (recurrent, sequences_of_several_lengths, attention, layers,
                 norms_and_distances, optimizers, mixed_precision, memory_and_loading):
        print("case", case.__name__, flush=True)
        torch.manual_seed(0)
        case()
        torch.npu.synchronize()
    print("passed")
