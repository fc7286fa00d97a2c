"""torch_npu.run_check(): does this machine compute correctly on its NPUs?"""

from typing import Optional


def _check_device(index: int) -> None:
    """Computes on one device and compares with the CPU; raises WrongResult that says what differs."""
    import torch

    device = torch.device("npu", index)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 32, generator=generator)
    w = torch.randn(32, 16, generator=generator)

    on_cpu = w.clone().requires_grad_()
    (x @ on_cpu).relu().sum().backward()
    on_npu = w.to(device).requires_grad_()
    product = (x.to(device) @ on_npu).relu()
    product.sum().backward()
    torch.npu.synchronize(device)

    gradient, expected_gradient = on_npu.grad, on_cpu.grad
    assert gradient is not None and expected_gradient is not None   # backward() made them
    for what, got, expected in (
        ("a copy to the device and back", x.to(device).cpu(), x),
        ("a matrix product", product.detach().cpu(), (x @ w).relu()),
        ("its gradient", gradient.cpu(), expected_gradient),
    ):
        # HF32 off: float32 products keep about six digits on every chip.
        if not torch.allclose(got, expected, rtol=1e-3, atol=1e-3):
            worst = (got - expected).abs().max().item()
            raise WrongResult(f"{what} on {device} is wrong by up to {worst:g}")


class NoDevice(RuntimeError):
    """This process sees no NPU."""


class WrongResult(RuntimeError):
    """A device computed something else than the CPU."""


_NO_DEVICE = 207004  # CANN's code


def _advice(code: int) -> str:
    """What to do about a code of CANN's, which torch.AcceleratorError carries."""
    from torch_npu._errors import advice

    told = advice.of(code)
    return told.next if told else "run `python -m torch_npu.doctor` for versions, libraries and devices"


def _remedy(error: Exception) -> str:
    """What to do about a failed check, by the error's kind."""
    from torch_npu import _C

    if _C._in_bad_fork():
        return "start worker processes with the 'spawn' method"
    if isinstance(error, NoDevice):
        return _advice(_NO_DEVICE)
    if isinstance(error, WrongResult):
        return "the device computes wrongly: run `npu-smi info` for its health, and report the chip and CANN version"
    return _advice(getattr(error, "error_code", 0))


def find_problem() -> Optional[str]:
    """None if everything works, else one text: what is wrong, and the remedy."""
    import torch

    from torch_npu import _runtime

    try:
        choice = _runtime.use_chosen()
        count = torch.npu.device_count()
        if count == 0:
            raise NoDevice(f"no NPU is visible to this process (runtime: {choice.runtime}, {choice.reason})")
        for index in range(count):
            _check_device(index)
    except Exception as error:  # the user asked what is wrong: any cause is an answer
        return f"{error}\nRemedy: {_remedy(error)}."
    return None


def run_check() -> bool:
    """Computes a matrix product with its gradient on every NPU and compares with the CPU.

    Prints "torch_npu works well on N npu", or what is wrong and the remedy; returns True or False.
    """
    import torch

    problem = find_problem()
    if problem is None:
        print(f"torch_npu works well on {torch.npu.device_count()} npu")
        return True
    print(f"torch_npu does not work: {problem}")
    return False
