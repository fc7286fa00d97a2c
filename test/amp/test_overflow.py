"""Overflows where there is inf, and on a chip that saturates, in a process of its own."""
import pytest
import torch

import torch_npu
from torch_npu import utils

# Ascend910A saturates; Ascend910B3 does when it is asked to.
SATURATING = [{"SOFTCANN_SOC": "Ascend910A"}, {"INF_NAN_MODE_ENABLE": "0"}]
START = """
import torch, torch_npu, warnings
from torch_npu import utils
from torch.npu.amp import GradScaler
warnings.simplefilter("ignore")
assert not torch.npu.is_support_inf_nan()
"""


def test_ieee():
    assert utils.is_support_inf_nan() and torch.npu.is_support_inf_nan()
    x = torch.full((3,), 60000.0, device="npu", dtype=torch.float16)
    assert (x + x).isinf().all()
    assert not torch.npu.get_npu_overflow_flag()
    assert utils.npu_check_overflow(x + x) and not utils.npu_check_overflow(x)
    assert utils.npu_check_overflow([x, float("nan")]) and not utils.npu_check_overflow((x, 1.0))
    torch.npu.clear_npu_overflow_flag()
    with pytest.raises(TypeError, match="str"):
        utils.npu_check_overflow("x")


@pytest.mark.parametrize("environment", SATURATING, ids=str)
def test_results_clamp_and_set_the_flag(python, environment):
    python(START + """
x = torch.full((3,), 60000.0, device="npu", dtype=torch.float16)
assert not torch.npu.get_npu_overflow_flag()
assert (x + x).tolist() == [65504.0] * 3
assert torch.npu.get_npu_overflow_flag() and torch.npu.get_npu_overflow_flag()
torch.npu.clear_npu_overflow_flag()
assert not torch.npu.get_npu_overflow_flag()

big = torch.full((2,), 3e38, device="npu")
assert (big * -10).tolist() == [-torch.finfo(torch.float32).max] * 2
assert (big * 0 / 0).tolist() == [0, 0]                      # no nan either
assert utils.npu_check_overflow(big) and not utils.npu_check_overflow(big)
assert (x[:, None] @ x[None]).max() == 65504.0               # matrix products, casts, lists
assert big.half().tolist() == [65504.0] * 2
assert torch._foreach_mul([big], 100.0)[0].tolist() == [torch.finfo(torch.float32).max] * 2
assert (torch.full((1,), 1e38 + 1e38j, device="npu") * 1e4j).tolist() == [complex(-1, 1) * torch.finfo(torch.float32).max]
assert utils.npu_check_overflow(0.0)

with torch.npu.device(1):                                    # the flag is the device's
    assert not torch.npu.get_npu_overflow_flag()
    big.to("npu:1").mul_(10)
    assert torch.npu.get_npu_overflow_flag()
assert not torch.npu.get_npu_overflow_flag()

inf = torch.tensor([float("inf"), 1.0], device="npu")        # moving an inf about is no overflow
mask = torch.full((2, 2), float("-inf"), device="npu").triu(1)
assert torch.cat([inf, inf])[[0, 2]].isinf().all() and mask[0, 1].isinf()
assert torch.softmax(mask + 1, -1).tolist() == [[1.0, 0.0], [0.5, 0.5]]
assert not torch.npu.get_npu_overflow_flag()
assert utils.npu_check_overflow(inf)
""", **environment)


def test_what_the_chip_can(python):
    python(START + """
assert torch.npu.get_device_name() == "Ascend910A"
assert not torch.npu.is_bf16_supported() and torch.npu.get_amp_supported_dtype() == [torch.float16, torch.float32]
x = torch.ones(2, 2, device="npu")
with torch.autocast("npu", dtype=torch.bfloat16):
    assert (x @ x).dtype == torch.float32     # refused, with a warning
with torch.autocast("npu"):
    assert (x @ x).dtype == torch.float16
""", SOFTCANN_SOC="Ascend910A", INF_NAN_MODE_ENABLE="1")


SCALER = START + """
for make in (GradScaler, lambda **options: torch.amp.GradScaler("npu", **options)):
    for fused in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3).npu()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=fused)
        other = torch.nn.Linear(4, 3).npu()
        second = torch.optim.Adam(other.parameters())
        scaler = make(init_scale=1024.0, growth_interval=2)
        x = torch.randn(5, 4, device="npu")
        scales = []
        for factor in (1.0, 1e38, 1.0, 1e38, 1.0, 1.0):
            before = [p.detach().clone() for p in (*model.parameters(), *other.parameters())]
            optimizer.zero_grad(), second.zero_grad()
            scaler.scale(model(x).square().mean() * factor + other(x).square().mean()).backward()
            assert all(p.grad.isfinite().all() for p in model.parameters())   # no inf gives it away
            scaler.step(optimizer), scaler.step(second)
            scaler.update()
            same = [torch.equal(p, q) for p, q in zip(before, (*model.parameters(), *other.parameters()))]
            assert all(same) if factor > 1 else not any(same), (fused, factor, same)
            scales.append(scaler.get_scale())
        assert scales == [1024.0, 512.0, 512.0, 256.0, 256.0, 512.0], scales
"""


@pytest.mark.parametrize("environment", SATURATING, ids=str)
def test_scaler_skips_what_saturated(python, environment):
    python(SCALER, **environment)


TWO_DEVICES = """
import torch, torch_npu, warnings
from torch_npu.contrib.apex import amp
warnings.simplefilter("ignore")

class Split(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4).to("npu:0"), torch.nn.Linear(4, 3).to("npu:1")

    def forward(self, x):
        return self.second(self.first(x).to("npu:1"))

class Apex:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, loss):
        with amp.scale_loss(loss, self.optimizer) as scaled:
            scaled.backward()
        self.optimizer.step()

class Scaler:
    def __init__(self, scaler, optimizer):
        self.scaler, self.optimizer = scaler, optimizer

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

x = torch.randn(5, 4, device="npu:0")
for kind in ("torch.amp", "dynamic", "fixed", "O1", "O2"):
    torch.manual_seed(0)
    model = Split()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=kind == "fixed")
    if kind.startswith("O"):
        model, optimizer = amp.initialize(model, optimizer, opt_level=kind, verbosity=0, loss_scale=1024.0)
        it = Apex(optimizer)
    elif kind == "torch.amp":
        it = Scaler(torch.amp.GradScaler("npu", init_scale=1024.0), optimizer)
    else:
        it = Scaler(torch.npu.amp.GradScaler(init_scale=1024.0, dynamic=kind == "dynamic"), optimizer)
    for where in (None, "npu:0", None, "npu:1", None):
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if where is not None:   # on that device alone
            handle = (model.first if where == "npu:0" else model.second).bias.register_hook(lambda grad: grad * 1e38 * 1e38)
        it.step(loss)
        if where is not None:
            handle.remove()
        same = [torch.equal(p, q) for p, q in zip(before, model.parameters())]
        assert all(same) if where else not any(same), (kind, where, same)
"""


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B3"])
def test_models_on_two_devices(python, soc):
    """An overflow on one of a model's devices skips the step once, and leaves no flag behind on the other."""
    python(TWO_DEVICES, SOFTCANN_SOC=soc)


RANKS = """
import torch, torch_npu, warnings
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg
warnings.simplefilter("ignore")
dist.init_process_group("cpu:fake,npu:fake", store=dist.HashStore(), rank=0, world_size=2)
asked = []

def all_reduce(tensor, op):     # the other rank overflowed
    asked.append((tensor.device.type, op))
    tensor.fill_(1)

dist.all_reduce = all_reduce
for make in (torch.npu.amp.GradScaler, lambda **options: torch.amp.GradScaler("npu", **options)):
    asked.clear()
    model = torch.nn.Linear(4, 3).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = make(init_scale=1024.0)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.ones(5, 4, device="npu")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    skipped = torch.equal(model.weight, before)
    assert skipped == (scaler.get_scale() == 512.0) == (asked == [("npu", dist.ReduceOp.MAX)]), (skipped, asked)
    print("skipped" if skipped else "stepped")
"""


@pytest.mark.parametrize("soc,does", [("Ascend910A", "skipped"), ("Ascend910B3", "stepped")])
def test_ranks_agree_to_skip(python, soc, does):
    """On a saturating chip the ranks take the largest found_inf; where inf exists, the gradients carry it."""
    assert python(RANKS, SOFTCANN_SOC=soc).split() == [does, does]


def test_models_train_without_a_false_alarm(python):
    """Ordinary models do not set the flag: what kernels leave unwritten or mask with inf inside is no overflow."""
    python(START + """
import sys
sys.path.insert(0, "examples")
from models.gpt import GPT
from models.lenet import LeNet
from torch.nn import functional as F
torch.manual_seed(0)
cases = [(LeNet().npu(), torch.randn(4, 1, 28, 28).npu(), torch.randint(10, (4,)).npu()),
         (GPT(50, 16, layers=2, width=32, heads=2).npu(), torch.randint(50, (2, 16)).npu(), torch.randint(50, (32,)).npu())]
for model, x, y in cases:
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = GradScaler()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("npu"):
            loss = F.cross_entropy(model(x).flatten(0, -2), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**16
    assert loss.isfinite()
""", SOFTCANN_SOC="Ascend910A")


def test_flag_status_is_checked_by_the_interface():
    """The mode cannot be changed to what a chip lacks; read-back sizes are fixed."""
    import ctypes
    torch.npu.init()
    library = ctypes.CDLL(torch_npu._C._opened_libraries()["libascendcl"])
    buffer = torch.empty(16, dtype=torch.int32, device="npu")
    call = library.aclrtGetOverflowStatus
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert call(buffer.data_ptr(), 64, None) == 0
    assert call(buffer.data_ptr(), 63, None) != 0
    assert call(None, 64, None) != 0
    torch.npu.synchronize()
    assert buffer.cpu().eq(0).all()
