"""Changes to PyTorch that no hook allows. Each says why, and which torch no longer needs it."""

import functools
import importlib
import operator
from typing import Any, Dict, Sequence

import torch
from torch import Tensor


def _dlpack_device() -> None:
    """Tensor.__dlpack_device__ compares the device type with the literal "privateuse1", so it raises for a backend
    that renamed itself. Needed through torch 2.13; remove it when the oldest supported torch asks for the
    registered name. (The C++ half of DLPack knows renamed backends.)
    """
    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self: Any) -> Any:
        if type(self) is torch.Tensor and self.device.type == "npu":
            from torch.utils.dlpack import DLDeviceType

            return DLDeviceType.kDLExtDev, self.device.index
        return original(self)

    __dlpack_device__.__doc__ = original.__doc__
    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _dlpack_layout() -> None:
    """Tensor.__dlpack__ hands out memory as it stands, and DLPack knows no internal storage formats. Needed as long as a
    backend has no say in it.
    """
    original = torch.Tensor.__dlpack__

    @functools.wraps(original)
    def __dlpack__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "npu":
            from torch_npu import _C

            _C._to_base_format(self)
        return original(self, *args, **kwargs)

    torch.Tensor.__dlpack__ = __dlpack__


def _storage_formats() -> None:
    """UntypedStorage.clone() and the old file format, which pickle uses, take memory as it stands; the first, of which
    copy.deepcopy() is made, has to keep an internal storage format, the second to write the base format and to read it, which
    it does after the tensors are made. Needed as long as a backend has no say in it.
    """
    from torch_npu import _C

    storage = torch.UntypedStorage
    original_clone, original_write, original_read = storage.clone, storage._write_file, storage._set_from_file

    def whole(self: Any) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)

    @functools.wraps(original_clone)
    def clone(self: Any) -> Any:
        if self.device.type == "npu":
            copy = _C._formatted_copy(whole(self))
            if copy is not None:
                return copy.untyped_storage()
        return original_clone(self)

    @functools.wraps(original_write)
    def _write_file(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "npu":
            self = _C._base_copy(whole(self)).untyped_storage()
        return original_write(self, *args, **kwargs)

    @functools.wraps(original_read)
    def _set_from_file(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "npu":
            _C._to_base_format(whole(self))
        return original_read(self, *args, **kwargs)

    setattr(storage, "clone", clone)  # noqa: B010
    setattr(storage, "_set_from_file", _set_from_file)  # noqa: B010
    setattr(storage, "_write_file", _write_file)  # noqa: B010


def _lazy_parameters() -> None:
    """A parameter without a shape yet (nn.LazyLinear and its kin) lets cuda() move it, by name, and no other device's method.
    Needed through torch 2.13; remove it when the oldest supported torch knows renamed backends there.
    """
    allowed = torch.nn.parameter.UninitializedTensorMixin._allowed_methods
    if torch.Tensor.npu not in allowed:
        allowed.append(torch.Tensor.npu)


def _monitored_barrier() -> None:
    """torch.distributed.monitored_barrier refuses every backend but gloo by name. Needed through torch 2.13; remove it
    when the oldest supported torch asks the backend.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    original = c10d.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        if not dist._rank_not_in_group(group) and "hccl" in dist.get_backend(group):
            from datetime import timedelta

            chosen: Any = group or dist.group.WORLD
            backend: Any = chosen._get_backend(torch.device("npu"))
            backend.monitored_barrier(timeout or timedelta(0), wait_all_ranks)
            return
        original(group, timeout, wait_all_ranks)

    c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier


def _group_timeout() -> None:
    """_set_pg_timeout, by which trainers give a group less time once training runs, sets NCCL's and Gloo's, by name. Needed
    through torch 2.13; remove it when the oldest supported torch asks the backend.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    original = c10d._set_pg_timeout

    @functools.wraps(original)
    def _set_pg_timeout(timeout: Any, group: Any = None) -> None:
        if not dist._rank_not_in_group(group) and "hccl" in dist.get_backend_config(group):
            chosen: Any = group or dist.group.WORLD
            chosen._get_backend(torch.device("npu"))._set_default_timeout(timeout)
            if torch.device("cpu") not in chosen._device_types:
                return  # the original would warn that it set none
        original(timeout, group)

    c10d._set_pg_timeout = _set_pg_timeout


def _hccl_of(group: Any) -> Any:
    """The backend of a process group for NPUs, if that is ours."""
    npu = torch.device("npu")
    backend = group._get_backend(npu) if npu in group._device_types else None
    return backend if backend is not None and backend.name() == "hccl" else None


def _sequence_numbers() -> None:
    """ProcessGroup._get_sequence_number_for_group asks PyTorch's own backends only, by their type. Needed through torch 2.13;
    remove it when the oldest supported torch asks every backend.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    original = dist.ProcessGroup._get_sequence_number_for_group

    @functools.wraps(original)
    def _get_sequence_number_for_group(self: Any) -> int:
        backend = _hccl_of(self)
        return int(original(self) if backend is None else backend._get_sequence_number_for_group())

    setattr(dist.ProcessGroup, "_get_sequence_number_for_group", _get_sequence_number_for_group)  # noqa: B010


def _ephemeral_timeout() -> None:
    """_add_ephemeral_timeout_for_all_pgs gives more time to NCCL's groups only, by name. Needed through torch 2.13; remove it
    when the oldest supported torch asks the backend.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    c10d: Any = dist.distributed_c10d
    original = getattr(c10d, "_add_ephemeral_timeout_for_all_pgs", None)
    if original is None:
        return

    @functools.wraps(original)
    def _add_ephemeral_timeout_for_all_pgs(timeout: Any) -> None:
        for group in c10d._world.pg_map:
            backend = _hccl_of(group)
            if backend is not None:
                backend._add_ephemeral_timeout(timeout)
        original(timeout)

    c10d._add_ephemeral_timeout_for_all_pgs = _add_ephemeral_timeout_for_all_pgs


def _all_gather_base_gradient() -> None:
    """The gradient of torch.distributed.nn.functional._all_gather_base knows NCCL and XCCL, by name. Needed through torch 2.13;
    remove it when the oldest supported torch asks the backend.
    """
    from torch_npu._hooks import imports

    def register(module: Any) -> None:
        function = module._AllGatherBase
        original = function.backward

        def backward(ctx: Any, grad_output: Tensor) -> Any:
            import torch.distributed as dist

            if grad_output.device.type != "npu":
                return original(ctx, grad_output)
            ranks, rows = dist.get_world_size(ctx.group), grad_output.size(0)
            if rows % ranks:
                raise RuntimeError(f"_all_gather_base: {rows} rows are not as many for each of {ranks} ranks")
            gradient = grad_output.new_empty([rows // ranks, *grad_output.shape[1:]])
            dist.reduce_scatter_tensor(gradient, grad_output.contiguous(), group=ctx.group)
            return None, gradient, None

        function.backward = staticmethod(backward)

    imports.when_imported("torch.distributed.nn.functional", register)


def _sharded_tensors() -> None:
    """torch.distributed._shard.sharded_tensor.ShardedTensor moves to the current device of CUDA. ``npu`` is the published
    torch_npu's; ``to`` takes an NPU without an index for the current one, as it does for CUDA.
    """
    from torch_npu._hooks import imports

    def current(value: Any) -> Any:
        device = torch.device(value) if isinstance(value, (str, torch.device)) else None
        if device is None or device.type != "npu" or device.index is not None:
            return value if device is None else device
        return torch.device("npu", torch.npu.current_device())

    def register(module: Any) -> None:
        kind = module.ShardedTensor
        original = kind.to

        @functools.wraps(original)
        def to(self: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self, *map(current, args), **{name: current(value) for name, value in kwargs.items()})

        def npu(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format,
                process_group: Any = None) -> Any:
            """This object with its local shards on the current NPU of each process, itself where they are. ``device``: that NPU,
            or None. ``process_group``: that of the result, where the present one has no backend for NPUs."""
            here = current("npu")
            if device is not None and current(device) not in (here, here.index):
                raise ValueError(f"ShardedTensor.npu: the current device is {here}, got {device}")
            return self.to(device=here, non_blocking=non_blocking, memory_format=memory_format, process_group=process_group)

        kind.to, kind.npu = to, npu

    imports.when_imported("torch.distributed._shard.sharded_tensor.api", register)


def _bf16_hooks() -> None:
    """DistributedDataParallel lets its bf16 communication hooks pass on CUDA and XPU only, by name. Needed through
    torch 2.13; remove it when the oldest supported torch asks the backend.
    """
    import functools

    from torch.nn.parallel import DistributedDataParallel

    original = DistributedDataParallel._check_comm_hook

    @functools.wraps(original)
    def _check_comm_hook(self: Any, hook: Any) -> None:
        if self.device_type == "npu" and getattr(hook, "__name__", None) in ("bf16_compress_hook", "bf16_compress_wrapper_hook"):
            inner = hook

            @functools.wraps(inner)
            def hook(*arguments: Any) -> Any:  # for the check alone: the same signature under another name
                return inner(*arguments)

            hook.__name__ = "compress_hook"
        original(self, hook)

    DistributedDataParallel._check_comm_hook = _check_comm_hook


def _scaler_all_reduces_found_inf() -> None:
    """torch.amp.GradScaler("npu") has no hook where ranks could agree that one of them overflowed, nor one where the flags of
    all devices of a step are cleared (_amp_update_scale_ knows the scale's), which only matters on chips without inf: see
    torch_npu.npu.amp.grad_scaler. It also refuses optimizers of torch_npu.contrib.apex, for which it would find no
    gradients. Needed as long as PyTorch has no such hooks.
    """
    unscale_grads, update_scale = torch.amp.GradScaler._unscale_grads_, torch.amp.GradScaler.update

    @functools.wraps(unscale_grads)
    def _unscale_grads_(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Dict[torch.device, Tensor]:
        if self._device != "npu":
            return unscale_grads(self, optimizer, *args, **kwargs)
        from torch_npu.npu.amp import grad_scaler

        grad_scaler.refuse_apex(optimizer)
        found_inf_per_device = unscale_grads(self, optimizer, *args, **kwargs)
        grad_scaler.all_reduce_found_inf(found_inf_per_device)
        return found_inf_per_device

    @functools.wraps(update_scale)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._device != "npu" or not self._enabled:
            return update_scale(self, *args, **kwargs)
        from torch_npu.npu import overflow
        from torch_npu.npu.amp import grad_scaler

        devices = grad_scaler.devices_of_step(self)
        update_scale(self, *args, **kwargs)
        overflow.clear_overflow_flags(devices)

    torch.amp.GradScaler._unscale_grads_ = _unscale_grads_
    torch.amp.GradScaler.update = update


def _deterministic_algorithms() -> None:
    """torch.use_deterministic_algorithms tells no device of the change, and CANN has a switch of its own. Needed as long as
    PyTorch has no such hook. A change from C++ reaches CANN when Python next makes one.
    """
    original = torch._C._set_deterministic_algorithms

    def _set_deterministic_algorithms(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        import torch_npu

        torch_npu._C._follow_determinism()

    torch._C._set_deterministic_algorithms = _set_deterministic_algorithms


def _data_parallel() -> None:
    """torch.nn.parallel.comm calls C++ functions that torch has only when it is built for CUDA. Without them, and so without
    any chance that they are CUDA's to answer, they are ours. Needed as long as they ask for CUDA by name.
    """
    from torch_npu._hooks import data_parallel

    missing = [function for function in data_parallel.FUNCTIONS if not hasattr(torch._C, f"_{function.__name__}")]
    for function in missing:
        setattr(torch._C, f"_{function.__name__}", function)
    if missing:
        _no_nccl_for_npu()


def _no_nccl_for_npu() -> None:
    """reduce_add asks for NCCL first, and warns that a torch without CUDA has none: nobody missed it for NPUs."""
    from torch.cuda import nccl

    original = nccl.is_available

    @functools.wraps(original)
    def is_available(tensors: Sequence[Tensor]) -> Any:
        return all(tensor.device.type != "npu" for tensor in tensors) and original(tensors)

    nccl.is_available = is_available


def _cann_version() -> None:
    """torch.version.cann, which accelerate and others print beside torch.version.cuda. It is found when it is asked for: an
    import opens no CANN. Needed as long as torch.version knows its own builds only.
    """
    if hasattr(torch.version, "cann"):
        return

    def __getattr__(name: str) -> Any:
        if name != "cann":
            raise AttributeError(f"module 'torch.version' has no attribute {name!r}")
        import torch_npu

        return torch_npu.runtime_info()["cann_version"]

    torch.version.__getattr__ = __getattr__


def _profiler_arguments() -> None:
    """torch.autograd.profiler.profile names devices in its old arguments: use_cuda. Programs for NPUs say use_npu=True,
    and sort by npu_time_total. Needed as long as the old arguments live.
    """
    from torch.autograd import profiler, profiler_util

    original = profiler.profile.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, use_npu: Any = None, **kwargs: Any) -> None:
        if use_npu:
            if kwargs.get("use_device") not in (None, "npu") or kwargs.get("use_cuda"):
                raise ValueError("use_npu=True and another device: a profile has one")
            kwargs["use_device"] = "npu"
        original(self, *args, **kwargs)

    profiler.profile.__init__ = __init__
    for name in ("{}_time", "{}_time_total", "self_{}_time_total", "{}_memory_usage", "self_{}_memory_usage"):
        for events in (profiler_util.FunctionEvent, profiler_util.FunctionEventAvg):
            setattr(events, name.format("npu"), property(operator.attrgetter(name.format("device"))))


def _published_places() -> None:
    """What the published torch_npu puts into torch.nn. Each is imported when it is called. Needed as long as programs call it
    there.
    """
    setattr(torch.nn, "DropoutWithByteMask", _called_from("torch_npu.contrib.module", "DropoutWithByteMask"))  # noqa: B010
    setattr(torch.nn.Module, "cast_weight", _called_from("torch_npu.npu._weights", "cast_weight"))  # noqa: B010
    setattr(torch.nn.functional, "dropout_with_byte_mask", _called_from("torch_npu.contrib.function", "dropout_with_byte_mask"))  # noqa: B010


def _former_places() -> None:
    """Ascend's operators were functions of torch itself (torch.npu_linear) before torch_npu had them. As in the published
    torch_npu, such a name is there, and a call says where the operator is. Needed as long as programs of that time are about.
    """
    original = vars(torch).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if name.startswith(("npu_", "_npu_")) or name in ("fast_gelu", "one_"):
            from torch_npu._ops import custom

            if name in custom.operators():
                return _moved_to_torch_npu(name)
        if original is None:
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
        return original(name)

    torch.__getattr__ = __getattr__


def _moved_to_torch_npu(name: str) -> Any:
    def moved(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"torch.{name} is not there any more: call torch_npu.{name} instead")

    moved.__name__ = moved.__qualname__ = name
    moved.__doc__ = f"Refuses: the operator is torch_npu.{name}."
    return moved


def _called_from(source: str, name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(source), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{source}.{name}."
    return function


PATCHES = (
    _cann_version,
    _dlpack_device,
    _dlpack_layout,
    _storage_formats,
    _lazy_parameters,
    _monitored_barrier,
    _sequence_numbers,
    _ephemeral_timeout,
    _all_gather_base_gradient,
    _sharded_tensors,
    _bf16_hooks,
    _scaler_all_reduces_found_inf,
    _deterministic_algorithms,
    _group_timeout,
    _data_parallel,
    _profiler_arguments,
    _former_places,
    _published_places,
)


def apply() -> None:
    for patch in PATCHES:
        patch()
