"""Dumps what operators read and write to files: ``torch.npu.init_dump()``, ``set_dump(config)``, ``finalize_dump()``.

A dump is a folder with ``index.jsonl``, one line for each tensor, and the tensors as ``step_<n>/<serial>_<operator>.<name>.npy``.
A line of the index: step, serial (number of the call), operator, call (number among the calls of this operator), kind (input or
output), name (of the argument or result), dtype, shape, strides, format (of the NPU's storage), device, line (of the program),
file (None for statistics alone), stats (min, max, mean, norm, nan, inf, all of them numbers). NumPy has no bfloat16 and no
float8: such tensors are kept as float32, which holds them exactly, and ``dtype`` tells what they were.
"""

import fnmatch
import io
import json
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, TextIO, Tuple, Union

import torch

from torch_npu._debug import observe

INDEX = "index.jsonl"
_MODES = ("input", "output", "all")
_DATA = ("tensor", "stats")
_ONLY = ("", "nan", "overflow")
_KEYS = ("dump_path", "dump_list", "dump_mode", "dump_level", "dump_step", "dump_data", "dump_only", "dump_debug",
         "dump_op_switch", "dump_device")
_OF_CANN = {
    "dump_scene": "dumps at an exception are CANN's own: torch_npu's errors name operator, shapes and line",
    "dump_stats": "statistics are always min, max, mean, norm, nan and inf: dump_data=stats",
}


@dataclass
class Config:
    """What is dumped: :func:`set_dump` tells what each key means."""

    path: str = "npu_dump"
    operators: Tuple[str, ...] = ()
    mode: str = "all"
    steps: Optional[Tuple[range, ...]] = None
    data: str = "tensor"
    only: str = ""
    device: str = "npu"
    level: str = "op"
    is_canns: bool = False  # the configuration is in CANN's form, and names CANN's operators

    def has_step(self, step: int) -> bool:
        return self.steps is None or any(step in some for some in self.steps)


def _one_of(key: str, value: Any, allowed: Tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{key}={value!r}: expected one of {', '.join(repr(name) for name in allowed)}")
    return str(value)


def _steps(text: Any) -> Optional[Tuple[range, ...]]:
    """CANN's notation: "0|3-5|10"; empty for all."""
    if text in (None, ""):
        return None
    steps: List[range] = []
    for part in str(text).split("|"):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
            raise ValueError(f"dump_step={text!r}: expected steps and ranges such as '0|3-5|10'")
        steps.append(range(int(first), int(last or first) + 1))
    return tuple(steps)


def _operators(value: Any) -> Tuple[str, ...]:
    """Names or patterns; CANN's own form, a list of {"layer": [names]}, is a list of names as well."""
    names: List[str] = []
    known = isinstance(value, (list, tuple, type(None)))
    for item in (value or ()) if known else ():
        layer = item.get("layer", []) if isinstance(item, dict) else [item]
        known = known and isinstance(layer, list) and all(isinstance(name, str) for name in layer)
        names += layer if known else []
    if not known:
        raise ValueError(f"dump_list={value!r}: expected a list of operators' names, such as ['aten.mm', 'npu.*']")
    return tuple(name.replace("::", ".") for name in names)


def read_config(config: Union[str, "os.PathLike[str]", Dict[str, Any]]) -> Config:
    """The configuration in a dict or a JSON file. ValueError for a key or value that means nothing, NotImplementedError for one
    of CANN's that is not served."""
    if not isinstance(config, dict):
        with open(config) as file:
            config = json.load(file)
    if not isinstance(config, dict):
        raise ValueError("a dump's configuration is a dict, or a JSON file with one")
    is_canns = "dump" in config
    keys = config["dump"] if is_canns else config
    if not isinstance(keys, dict):
        raise ValueError(f"dump={keys!r}: expected an object with a dump's keys")
    for key in keys:
        if key in _OF_CANN:
            raise NotImplementedError(f"{key}: {_OF_CANN[key]}")
        if key not in _KEYS:
            raise ValueError(f"a dump's configuration has no key {key!r}; the keys are {', '.join(_KEYS)}")
    level = _one_of("dump_level", keys.get("dump_level", "all" if is_canns else "op"), ("op", "kernel", "all"))
    if _one_of("dump_op_switch", keys.get("dump_op_switch", "on"), ("on", "off")) == "off":
        raise ValueError("dump_op_switch=off: nothing would be dumped, for PyTorch calls operators one by one")
    only = _one_of("dump_only", keys.get("dump_only", ""), _ONLY)
    if _one_of("dump_debug", keys.get("dump_debug", "off"), ("on", "off")) == "on":
        only = only or "overflow"
    if level == "kernel" and only == "nan":
        raise NotImplementedError("dump_level=kernel: CANN has no dump_only=nan; dump_level=op does")
    path = keys.get("dump_path") or "npu_dump"
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"dump_path={path!r}: expected the path of a folder")
    return Config(
        path=os.fspath(path),
        operators=_operators(keys.get("dump_list")),
        mode=_one_of("dump_mode", keys.get("dump_mode", "all"), _MODES),
        steps=_steps(keys.get("dump_step")),
        data=_one_of("dump_data", keys.get("dump_data", "tensor"), _DATA),
        only=only,
        device=_one_of("dump_device", str(keys.get("dump_device", "npu")).partition(":")[0], ("npu", "cpu")),
        level=level,
        is_canns=is_canns,
    )


def host_array(tensor: torch.Tensor) -> Any:
    """The tensor's values as a NumPy array of its shape; floating types that NumPy lacks as float32. Waits for the device."""
    host = tensor.detach()
    if host.layout != torch.strided:
        host = host.to_dense()
    if host.is_quantized:
        host = host.dequantize()
    host = host.cpu().resolve_conj().resolve_neg()
    if host.dtype == torch.complex32:
        host = host.to(torch.complex64)
    elif host.is_floating_point() and host.dtype not in (torch.float16, torch.float32, torch.float64):
        host = host.float()
    return host.numpy()


def statistics(array: Any) -> Dict[str, Any]:
    """min, max, mean and norm (Euclidean) of the finite elements, numbers of nan and inf. Complex numbers count by magnitude."""
    import numpy

    values = numpy.abs(array) if array.dtype.kind == "c" else array
    nan, inf = 0, 0
    if values.dtype.kind == "f":
        nan, inf = int(numpy.isnan(values).sum()), int(numpy.isinf(values).sum())
        values = values[numpy.isfinite(values)] if nan or inf else values
    wide = values.astype(numpy.float64)
    if wide.size == 0:
        return {"min": None, "max": None, "mean": None, "norm": 0.0, "nan": nan, "inf": inf}
    return {"min": float(wide.min()), "max": float(wide.max()), "mean": float(wide.mean()),
            "norm": float(numpy.sqrt((wide * wide).sum())), "nan": nan, "inf": inf}


def _format(tensor: torch.Tensor) -> str:
    if tensor.device.type != "npu":
        return str(tensor.layout).rpartition(".")[2]
    from torch_npu import _format

    return str(_format.get_npu_format(tensor))


@dataclass
class _Record:
    """One tensor as it was at one moment."""

    kind: str
    name: str
    entry: Dict[str, Any]
    array: Any


def _record(kind: str, name: str, tensor: torch.Tensor) -> _Record:
    array = host_array(tensor)
    strides = list(tensor.stride()) if tensor.layout == torch.strided else None
    entry = {"kind": kind, "name": name, "dtype": str(tensor.dtype)[len("torch."):], "shape": list(tensor.shape),
             "strides": strides, "format": _format(tensor), "device": str(tensor.device)}
    return _Record(kind, name, entry, array)


class Dump(observe.Observer):
    """One dump, from the first operator after :func:`set_dump` to :func:`finalize_dump`."""

    def __init__(self, config: Config, folder: str) -> None:
        self.config, self.step = config, 0
        self.lock = threading.Lock()
        self.folder = folder
        path = os.path.join(self.folder, INDEX)
        try:
            self.index: Optional[TextIO] = open(path, "x")
        except FileExistsError:
            raise FileExistsError(f"{path}: there is a dump already; remove it, or choose another dump_path") from None

    def wants(self, call: observe.Call) -> bool:
        config = self.config
        if not config.has_step(self.step):
            return False
        if config.operators:
            names = (call.operator, call.operator.rpartition(".")[0], call.base_name())
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in config.operators):
                return False
        elif call.is_view() or not (call.schema.returns or any(written for _, _, written in call.inputs())):
            return False
        return call.is_on(config.device)

    def before(self, call: observe.Call) -> None:
        if not self.wants(call):
            return
        records = call.notes[self] = []
        if self.config.mode != "output":
            records += [_record("input", name, tensor) for name, tensor, _ in call.inputs()]

    def after(self, call: observe.Call, results: Any) -> None:
        if self not in call.notes:
            return
        written: List[_Record] = []
        if observe.results_can_be_read(call, results) and not call.leaves_unwritten():
            written = [_record("output", name, tensor) for name, tensor, is_written in call.inputs() if is_written]
            own = {tensor.data_ptr() for _, tensor, is_written in call.inputs() if is_written and tensor.layout == torch.strided}
            written += [_record("output", name, tensor) for name, tensor in observe.named_results(call, results)
                        if tensor.layout != torch.strided or tensor.data_ptr() not in own or tensor.numel() == 0]
        if self.config.only and not any(_is_bad(record, self.config.only) for record in written):
            return
        self.write(call, call.notes[self] + (written if self.config.mode != "input" else []))

    def write(self, call: observe.Call, records: List[_Record]) -> None:
        with self.lock:
            if self.index is None:
                return
            try:
                for record in records:
                    self.write_one(call, record)
                self.index.flush()
            except OSError as error:
                self.index = None
                observe.remove(self)
                text = f"the dump in {self.folder} ends here, at {call.operator}: {error.strerror}"
                raise OSError(error.errno, text) from error

    def write_one(self, call: observe.Call, record: _Record) -> None:
        entry = {"step": self.step, "serial": call.serial, "operator": call.operator, "call": call.number, **record.entry,
                 "line": call.line(), "file": None, "stats": statistics(record.array)}
        if self.config.data == "tensor":
            name = re.sub(r"[^\w.\[\]-]", "_", f"{call.serial:06d}_{call.operator}.{record.kind}.{record.name}")
            entry["file"] = os.path.join(f"step_{self.step}", f"{name}.npy")
            os.makedirs(os.path.join(self.folder, f"step_{self.step}"), exist_ok=True)
            _save(os.path.join(self.folder, entry["file"]), record.array)
        assert self.index is not None
        self.index.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        with self.lock:
            if self.index is not None:
                self.index.close()
                self.index = None


def _save(path: str, array: Any) -> None:
    """numpy.save; but NumPy, which writes to files by itself, does not tell why a write failed."""
    import numpy

    content = io.BytesIO()
    numpy.save(content, array)
    with open(path, "wb") as file:
        file.write(content.getbuffer())


def _is_bad(record: _Record, only: str) -> bool:
    import numpy

    if record.array.dtype.kind not in "fc":
        return False
    return bool(numpy.isnan(record.array).any() if only == "nan" else not numpy.isfinite(record.array).all())


def _make_folder(config: Config) -> str:
    """With several ranks each has its own."""
    folder = config.path
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        folder = os.path.join(config.path, f"rank_{os.environ.get('RANK', '0')}")
    os.makedirs(folder, exist_ok=True)
    return folder


class _Kernels:
    """CANN's own dump of the operators below PyTorch's, to ``folder``, of chosen steps to ``folder/step_<n>``: CANN does not
    know PyTorch's steps."""

    def __init__(self, config: Config, folder: str) -> None:
        self.config, self.folder, self.runs = config, folder, False
        os.makedirs(folder, exist_ok=True)
        torch.npu.init()

    def enter_step(self, step: int) -> None:
        if self.config.steps is None:
            if not self.runs:
                self.begin(self.folder)
            return
        self.end()
        if self.config.has_step(step):
            self.begin(os.path.join(self.folder, f"step_{step}"))

    def begin(self, folder: str) -> None:
        _begin_kernels(self.config, folder)
        self.runs = True

    def end(self) -> None:
        if self.runs:
            from torch_npu import _C

            self.runs = False
            torch.npu.synchronize()
            _C._finalize_dump()


def _begin_kernels(config: Config, folder: str) -> None:
    import tempfile

    from torch_npu import _C

    os.makedirs(folder, exist_ok=True)
    keys: Dict[str, Any] = {"dump_path": os.path.abspath(folder), "dump_mode": config.mode, "dump_data": config.data,
                            "dump_op_switch": "on", "dump_list": []}
    if config.operators and (config.level == "kernel" or config.is_canns):  # else they are PyTorch's
        keys["dump_list"] = [{"layer": list(config.operators)}]
    if config.only == "overflow":
        keys["dump_debug"] = "on"
    _C._init_dump()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"dump": keys}, file)
        file.flush()
        _C._set_dump(file.name)


class _State:
    ready = False
    step = 0
    kernels: Optional[_Kernels] = None
    dump: Optional[Dump] = None
    steps_hook: Any = None
    counted: Optional[int] = None  # id() of the optimizer whose steps are counted
    counted_by_hand = False  # by step()


def init_dump() -> None:
    """Says that dumps will be made; :func:`set_dump` begins one. RuntimeError if it was said already."""
    if _State.ready:
        raise RuntimeError("torch.npu.init_dump() was called already; torch.npu.finalize_dump() ends it")
    _State.ready = True


def set_dump(cfg_file: Union[str, "os.PathLike[str]", Dict[str, Any]]) -> None:
    """Dumps the operators from now on, until :func:`finalize_dump` or another :func:`set_dump`.

    ``cfg_file``: a JSON file, or a dict, as CANN's with or without the outer key ``dump``:

    - ``dump_path``: folder of the dump, made if needed; with several ranks ``rank_<n>`` in it. It must not hold a dump already.
    - ``dump_list``: operators, as names or patterns (``aten.mm``, ``mm``, ``npu.*``). All that compute something by default.
    - ``dump_mode``: ``input``, ``output`` or ``all`` (default).
    - ``dump_step``: steps, such as ``0|3-5``. The first optimizer's step() ends a step, or :func:`step`.
    - ``dump_data``: ``tensor`` (default) or ``stats``, statistics alone.
    - ``dump_only``: ``nan`` or ``overflow``: only calls with NaN, or with infinity or NaN, in a result. ``dump_debug: on`` is
      CANN's word for overflow.
    - ``dump_device``: ``npu`` (default), or ``cpu`` for a run to compare with.
    - ``dump_level``: ``op``, PyTorch's operators; ``kernel``, the operators of CANN below them, dumped by CANN itself to
      ``dump_path/kernels`` (with softcann in the same form as PyTorch's, else in CANN's); ``all``, both. ``op`` by default; with
      CANN's outer key, ``all``, as CANN has it: programs for CANN expect its files. With ``dump_step`` those of a step are in
      ``kernels/step_<n>``.

    Waits for the device at each operator. RuntimeError without :func:`init_dump`; ValueError, NotImplementedError for a
    configuration that cannot be served; FileNotFoundError, FileExistsError.
    """
    if not _State.ready:
        raise RuntimeError("call torch.npu.init_dump() before torch.npu.set_dump()")
    config = read_config(cfg_file)
    _end()
    observe.restart_numbers()
    try:
        _begin(config)
    except BaseException:
        _end()
        raise


def _begin(config: Config) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    folder = _make_folder(config)
    if config.level != "op":
        _State.kernels = _Kernels(config, os.path.join(folder, "kernels"))
        _State.kernels.enter_step(0)
    if config.level != "kernel":
        _State.dump = Dump(config, folder)
        observe.add(_State.dump)
    _State.steps_hook = register_optimizer_step_post_hook(_after_optimizer_step)


def finalize_dump() -> None:
    """Ends the dump, if :func:`init_dump` began one."""
    _end()
    _State.ready = False


def _enter_next_step() -> None:
    _State.step += 1
    if _State.dump is not None:
        _State.dump.step = _State.step
    if _State.kernels is not None:
        _State.kernels.enter_step(_State.step)


def step() -> None:
    """The next step begins, for programs without an optimizer: from then on its steps are not counted."""
    if _State.steps_hook is not None:
        _State.counted_by_hand = True
        _enter_next_step()


def _after_optimizer_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if not _State.counted_by_hand and _State.counted in (None, id(optimizer)):
        _State.counted = id(optimizer)
        _enter_next_step()


def _end() -> None:
    if _State.kernels is not None:
        _State.kernels.end()
        _State.kernels = None
    if _State.dump is not None:
        observe.remove(_State.dump)
        _State.dump.close()
        _State.dump = None
    if _State.steps_hook is not None:
        _State.steps_hook.remove()
        _State.steps_hook = _State.counted = None
        _State.counted_by_hand = False
    _State.step = 0


def start_from_environment() -> None:
    """ACL_DUMP_DATA=1: as init_dump() and set_dump("acl.json"), or without such a file a dump of everything."""
    init_dump()
    if os.path.exists("acl.json"):
        set_dump("acl.json")
        return
    import time

    set_dump({"dump_path": os.path.join("npu_dump", f"{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}")})


__all__ = ["Config", "Dump", "finalize_dump", "init_dump", "read_config", "set_dump", "step"]
