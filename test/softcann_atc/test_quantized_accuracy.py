"""Handwritten digits by three trained networks, as float models and as int8 models: what quantisation costs."""
import numpy
import pytest
import torch
from softcann import quantize, validate
from softcann.atc import container, convert
from softcann.atc.interpret import Interpreter
from test_whole_models import exported
from torch import nn

sklearn_datasets = pytest.importorskip("sklearn.datasets")
TRAINED, BATCH = 1297, 500   # of 1797 pictures


def lenet():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def mobilenet():
    layers, inputs = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()], 16
    for width, stride in ((24, 2), (32, 1), (32, 2)):
        layers += [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6(),
                   nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Vit(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches, self.places = nn.Conv2d(1, width, 2, 2), nn.Parameter(torch.randn(16, width) / 6)
        self.layers = nn.Sequential(*(nn.TransformerEncoderLayer(width, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(x)).mean(1))


NETWORKS = {"lenet": lenet, "mobilenet": mobilenet, "vit": Vit}


@pytest.fixture(scope="module")
def digits():
    """Pictures [N, 1, 8, 8] of 0 to 1 and labels: those to train with, those to test with."""
    data = sklearn_datasets.load_digits()
    order = numpy.random.default_rng(0).permutation(len(data.target))
    x, y = torch.from_numpy(data.images[order]).float()[:, None] / 16, torch.from_numpy(data.target[order]).long()
    return (x[:TRAINED], y[:TRAINED]), (x[TRAINED:], y[TRAINED:])


def trained(network, x, y, epochs=15):
    optimizer = torch.optim.AdamW(network.parameters(), 4e-3)
    for _ in range(epochs):
        for some in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(network(x[some]), y[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


def accuracy(om, x, y):
    scores = Interpreter(container.read(om)).run([x])[0]
    return (scores.argmax(1) == y).double().mean().item()


@pytest.fixture(scope="module", params=NETWORKS)
def quantised(request, digits, tmp_path_factory):
    """Of a trained network the folder with float.onnx, int8.onnx and the .om files of both, and its name."""
    (x, y), (test_x, _) = digits
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    network = trained(NETWORKS[request.param](), x, y)
    exported(network, (test_x,), folder / "float.onnx", False, input_names=["x"])
    examples = [str(folder / f"{index}.npz") for index in range(2)]
    for index, path in enumerate(examples):
        numpy.savez(path, x=x[index * BATCH:(index + 1) * BATCH].numpy())
    assert quantize.main([f"--model={folder}/float.onnx", f"--output={folder}/int8.onnx", "--data", *examples]) == 0
    for kind in ("float", "int8"):
        convert(folder / f"{kind}.onnx", folder / kind, precision_mode_v2="origin")
    return request.param, folder


def test_int8_costs_less_than_a_hundredth(quantised, digits):
    name, folder = quantised
    exact, rounded = (accuracy(folder / f"{kind}.om", *digits[1]) for kind in ("float", "int8"))
    print(f"{name}: float {exact:.3f}, int8 {rounded:.3f}")
    assert exact > 0.95
    assert rounded > exact - 0.01


def test_validate_compares_int8_with_float(quantised, digits, capsys):
    _, folder = quantised
    numpy.save(folder / "x.npy", digits[1][0].numpy())
    words = [f"--onnx={folder}/float.onnx", f"--input=x={folder}/x.npy", "--engine=interpreter"]
    assert validate.main([f"--om={folder}/int8.om", *words]) == 0
    assert "DIVERGES" not in capsys.readouterr().out


def test_validate_finds_the_scale_that_is_wrong(quantised, digits, capsys):
    import onnx
    from onnx import numpy_helper

    _, folder = quantised
    numpy.save(folder / "x.npy", digits[1][0].numpy())
    model = onnx.load(folder / "int8.onnx")
    matrix = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")][1]
    quantized = next(node for node in model.graph.node if node.output[0] == matrix.input[0])
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == quantized.input[1])
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) / numpy.float32(64), scale.name))   # clips nearly all
    onnx.save(model, folder / "wrong.onnx")
    om = convert(folder / "wrong.onnx", folder / "wrong", precision_mode_v2="origin")
    assert validate.main([f"--om={om}", f"--onnx={folder}/float.onnx", f"--input=x={folder}/x.npy", "--engine=interpreter"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"first to diverge: {matrix.name} of type {matrix.op_type}"
