"""Whole models train on npu as they do on the CPU: same seeds, same losses, no operator left to the CPU."""
import copy

import pytest
import torch
from models.gpt import GPT
from models.lenet import LeNet
from models.lstm import LSTMClassifier
from models.resnet import ResNet18
from torch.nn import functional as F

import torch_npu  # noqa: F401

STEPS = 20


class Case:
    """A model on the CPU and its batch; `loss(model, batch)` gives the loss.

    `pace` slows the learning of models whose losses would otherwise say nothing: those that fall towards 0 within the
    steps amplify the last bit of a sum beyond every tolerance, on the CPU too.
    """

    def __init__(self, model, batch, loss, pace=1.0):
        self.model, self.batch, self.loss, self.pace = model, batch, loss, pace


def lenet():
    batch = torch.randn(16, 1, 28, 28), torch.randint(10, (16,))
    return Case(LeNet(), batch, lambda model, b: F.cross_entropy(model(b[0]), b[1]))


def resnet18():
    batch = torch.randn(8, 3, 64, 64), torch.randint(10, (8,))
    return Case(ResNet18(classes=10), batch, lambda model, b: F.cross_entropy(model(b[0]), b[1]), pace=0.001)


def gpt():
    tokens = torch.randint(101, (2, 33))
    loss = lambda model, b: F.cross_entropy(model(b[0]).flatten(0, 1), b[1].flatten())
    return Case(GPT(vocabulary=101, length=32, layers=4, width=64), (tokens[:, :-1], tokens[:, 1:]), loss)


def lstm():
    batch = torch.randint(50, (8, 12)), torch.randint(3, (8,))
    return Case(LSTMClassifier(50, classes=3, layers=2), batch, lambda model, b: F.cross_entropy(model(b[0]), b[1]))


def clip():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**sizes, "vocab_size": 99, "max_position_embeddings": 16, "eos_token_id": 98, "bos_token_id": 97,
                     "pad_token_id": 1},
        vision_config={**sizes, "image_size": 32, "patch_size": 8}, projection_dim=32)
    tokens = torch.randint(2, 97, (4, 10))
    tokens[:, -1] = 98
    batch = tokens, torch.ones_like(tokens), torch.randn(4, 3, 32, 32)
    loss = lambda model, b: model(b[0], attention_mask=b[1], pixel_values=b[2], return_loss=True).loss
    return Case(transformers.CLIPModel(config), batch, loss, pace=0.1)


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3)
    tokens = torch.randint(99, (4, 12))
    mask = torch.ones_like(tokens)
    mask[0, 8:] = 0   # one padded sentence
    batch = tokens, mask, torch.randint(3, (4,))
    loss = lambda model, b: model(b[0], attention_mask=b[1], labels=b[2]).loss
    return Case(transformers.BertForSequenceClassification(config), batch, loss)


OPTIMIZERS = {
    "sgd": lambda parameters, pace: torch.optim.SGD(parameters, lr=0.01 * pace, momentum=0.9, weight_decay=1e-4),
    "adam": lambda parameters, pace: torch.optim.Adam(parameters, lr=1e-3 * pace),
    "adamw": lambda parameters, pace: torch.optim.AdamW(parameters, lr=1e-3 * pace),
}


def losses(case, device, optimizer_name):
    model = copy.deepcopy(case.model).to(device)
    batch = tuple(t.to(device) for t in case.batch)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters(), case.pace)
    result = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = case.loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        result.append(loss.item())
    return result


@pytest.mark.parametrize("make,optimizer", [
    (lenet, "sgd"), (lenet, "adam"), (lenet, "adamw"),
    (resnet18, "sgd"), (resnet18, "adamw"),
    (gpt, "sgd"), (gpt, "adamw"),
    (lstm, "sgd"), (lstm, "adam"),
    (clip, "adamw"), (clip, "sgd"),
    (bert, "adamw"), (bert, "sgd"),
], ids=lambda p: getattr(p, "__name__", p))
def test_losses_equal_the_cpus(make, optimizer, no_fallback):
    torch.manual_seed(0)
    case = make()
    case.model.train()
    expected = losses(case, "cpu", optimizer)
    actual = losses(case, "npu", optimizer)
    assert expected[-1] < expected[0], "the CPU itself does not learn: the test would prove nothing"
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=0)


# Half precision rounds each operator's result; the outputs are compared with float32's, relative to their size.
@pytest.mark.parametrize("dtype,tolerance", [(torch.float16, 1e-2), (torch.bfloat16, 6e-2)], ids=str)
@pytest.mark.parametrize("make", [lenet, resnet18, gpt, lstm, clip, bert], ids=lambda p: p.__name__)
def test_forward_in_half_precision(make, dtype, tolerance, no_fallback):
    torch.manual_seed(0)
    case = make()
    case.model.eval()
    cast = lambda t: t.to(dtype) if t.is_floating_point() else t
    model = copy.deepcopy(case.model).to("npu", dtype)
    with torch.no_grad():
        expected = case.loss(case.model, case.batch)
        actual = case.loss(model, tuple(cast(t).npu() for t in case.batch))
    assert actual.isfinite()
    torch.testing.assert_close(actual.float().cpu(), expected, rtol=tolerance, atol=0)
