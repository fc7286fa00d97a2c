"""PyTorch's profiler with the arguments and the files of Ascend's."""

import atexit
import json
import os
import shutil
import socket
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

import torch
from torch.profiler import ProfilerActivity, _KinetoProfile, profile as _torch_profile, supported_activities

from torch_npu import _C
from torch_npu.profiler._lenient import goes_on
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    ProfilerLevel,
    _ExperimentalConfig,
    reset,
    supported_export_type,
)

__all__ = ["ProfilerActivity", "_KinetoProfile", "analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_SUFFIX = "_ascend_pt"
_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_RAW = os.path.join("FRAMEWORK", "trace.json")


_running: "weakref.WeakSet[profile]" = weakref.WeakSet()


def _end_running() -> None:
    """PyTorch crashes where a program ends, say with an exception, within a profile."""
    for running in list(_running):
        running.stop_trace()


atexit.register(_end_running)


class profile(_torch_profile):
    """``torch.profiler.profile`` of the host and the NPU: its methods and tables are there, and nothing needs another tool.

    ``experimental_config``: an ``_ExperimentalConfig`` of this package (or PyTorch's own); ``use_cuda`` is accepted.
    ``on_trace_ready=tensorboard_trace_handler(folder)`` writes Ascend's files.
    """

    def __init__(self, *, activities: Optional[Iterable[ProfilerActivity]] = None,
                 schedule: Optional[Callable[[int], Any]] = None, on_trace_ready: Optional[Callable[..., Any]] = None,
                 record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 custom_trace_id_callback: Optional[Callable[[], str]] = None, use_cuda: Optional[bool] = None,
                 **options: Any) -> None:
        if schedule is not None and not callable(schedule):
            schedule = reset("schedule", schedule, None)
        if on_trace_ready is not None and not callable(on_trace_ready):
            on_trace_ready = reset("on_trace_ready", on_trace_ready, None)
        if activities is not None and not (activities := list(activities)):
            activities = reset("activities", activities, None)
        if activities is not None and not set(activities) <= supported_activities():
            activities = reset("activities", activities, None)
        known = (_ExperimentalConfig, torch._C._profiler._ExperimentalConfig, type(None))
        if not isinstance(experimental_config, known):
            experimental_config = reset("experimental_config", experimental_config, None)
        is_own = isinstance(experimental_config, _ExperimentalConfig)
        self.ascend_config = experimental_config if is_own else _ExperimentalConfig()
        if not is_own and experimental_config is not None:
            options["experimental_config"] = experimental_config
        elif with_stack:  # PyTorch keeps the stacks of its events only so
            options["experimental_config"] = torch._C._profiler._ExperimentalConfig(verbose=True)
        if execution_trace_observer is not None:
            options["execution_trace_observer"] = execution_trace_observer
        if custom_trace_id_callback is not None:
            options["custom_trace_id_callback"] = custom_trace_id_callback
        super().__init__(activities=activities, schedule=schedule, on_trace_ready=on_trace_ready, record_shapes=record_shapes,
                         profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
                         **options)

    def _check_alone(self) -> None:
        """PyTorch lets a second profile take over, and the first one ends up empty."""
        if any(other is not self for other in _running):
            raise RuntimeError("a profile of this process is running already: PyTorch records one at a time; stop that one first")

    def _records_operands(self) -> bool:
        return self.ascend_config._profiler_level in (ProfilerLevel.Level1, ProfilerLevel.Level2)

    def prepare_trace(self) -> None:
        """``torch.profiler.profile.prepare_trace``. RuntimeError while another profile of this class runs."""
        self._check_alone()
        super().prepare_trace()

    def start_trace(self) -> None:
        """``torch.profiler.profile.start_trace``; from then on other threads can join. RuntimeError while another profile of this
        class runs."""
        self._check_alone()
        super().start_trace()
        _C._profile_begun()
        _C._profile_operands(self._records_operands())
        _running.add(self)

    def stop_trace(self) -> None:
        """``torch.profiler.profile.stop_trace``."""
        _C._profile_ends()
        _C._profile_operands(False)
        _running.discard(self)
        super().stop_trace()

    @staticmethod
    def enable_profiler_in_child_thread(record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
                                        with_flops: bool = False, with_modules: bool = False) -> None:
        """From here on the operators of this thread, too, are in the profile that another thread runs.

        What is recorded of each is what that profile was told; the arguments are taken for programs that repeat it here. Without
        a profile nothing happens but a warning. See :meth:`disable_profiler_in_child_thread`.
        """
        del record_shapes, profile_memory, with_stack, with_flops, with_modules
        if not _C._profile_this_thread():
            warnings.warn("enable_profiler_in_child_thread: no profile is running, so this thread is not recorded", stacklevel=2)

    @staticmethod
    def disable_profiler_in_child_thread() -> None:
        """Ends what :meth:`enable_profiler_in_child_thread` began in this thread, before the profile ends."""
        if not _C._leave_profile_in_this_thread():
            warnings.warn("disable_profiler_in_child_thread: this thread is in no profile", stacklevel=2)

    def stop(self) -> None:
        """``torch.profiler.profile.stop``; a RuntimeWarning where it was not started. What ``on_trace_ready`` raises goes on."""
        if self.profiler is None:
            warnings.warn("torch_npu.profiler: profile.stop did nothing: it was not started", RuntimeWarning, stacklevel=2)
            return
        super().stop()

    add_metadata = goes_on(_torch_profile.add_metadata)
    add_metadata_json = goes_on(_torch_profile.add_metadata_json)

    # The published names of arguments, which are not torch's.
    @goes_on
    def export_chrome_trace(self, output_path: str, **options: Any) -> Any:
        """``torch.profiler.profile.export_chrome_trace``. A number is no path: it would name an open file of the process."""
        if isinstance(output_path, int):
            raise TypeError(f"the path of a trace is text, not {output_path}")
        super().export_chrome_trace(output_path, **options)

    @goes_on
    def export_memory_timeline(self, output_path: str, device: Optional[str] = None) -> Any:
        """``torch.profiler.profile.export_memory_timeline``."""
        return super().export_memory_timeline(output_path, device)

    @goes_on
    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> Any:
        """``torch.profiler.profile.export_stacks``: needs ``with_stack=True``. ``self_npu_time_total`` is a metric, too."""
        return super().export_stacks(output_path, metric.replace("npu", "privateuse1"))


def wants_domain(domain: str) -> bool:
    """Whether the profile that runs shows the marks of a domain (``mstx_domain_include``, ``mstx_domain_exclude``)."""
    for running in _running:
        config = running.ascend_config
        if config._mstx_domain_include:
            return domain in config._mstx_domain_include
        return domain not in config._mstx_domain_exclude
    return True


def _rank() -> int:
    dist = torch.distributed
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else -1


def _info(config: _ExperimentalConfig, begun: float) -> Dict[str, Any]:
    import torch_npu

    settings = {name.lstrip("_"): value for name, value in vars(config).items()}
    return {"config": {"common_config": {}, "experimental_config": settings}, "start_info": {"time": begun},
            "end_info": {"time": time.time()}, "torch_npu_version": torch_npu.__version__,
            "cann_version": torch_npu.runtime_info()["cann_version"], "rank_id": _rank()}


def _write_metadata(path: str, groups: Dict[str, Any]) -> None:
    with open(os.path.join(path, "profiler_metadata.json"), "w", encoding="utf-8") as file:
        json.dump({"distributed_info": {}, "parallel_group_info": groups}, file)


def tensorboard_trace_handler(dir_name: Optional[str] = None, worker_name: Optional[str] = None, analyse_flag: bool = True,
                              async_mode: bool = False) -> Callable[[Any], None]:
    """For ``on_trace_ready``: writes each trace to ``dir_name/<worker>_<time>_ascend_pt`` (the current folder by default).

    A name that cannot be one becomes the default, with a warning in the log. analyse_flag: the files of Ascend's tools at once;
    else :func:`analyse` makes them later. async_mode: on a thread.
    """
    if worker_name is not None and (not isinstance(worker_name, str) or not worker_name or os.sep in worker_name):
        worker_name = reset("worker_name", worker_name, None)
    if dir_name is not None and not isinstance(dir_name, (str, os.PathLike)):
        dir_name = reset("dir_name", dir_name, None)
    folder = os.path.abspath(dir_name or os.curdir)

    def handler(profiled: Any) -> None:
        config = getattr(profiled, "ascend_config", None) or _ExperimentalConfig()
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        now = time.time()
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03d}"
        path = os.path.join(folder, f"{worker}_{stamp}{_SUFFIX}")
        os.makedirs(os.path.dirname(os.path.join(path, _RAW)), mode=0o750, exist_ok=True)
        profiled.export_chrome_trace(os.path.join(path, _RAW))
        rank = _rank()
        with open(os.path.join(path, f"profiler_info{'' if rank < 0 else f'_{rank}'}.json"), "w", encoding="utf-8") as file:
            json.dump(_info(config, now), file, indent=2)
        _write_metadata(path, {})
        if not analyse_flag:
            return
        if async_mode:
            threading.Thread(target=_analyse_one, args=(path,), name="torch_npu.profiler").start()
        else:
            _analyse_one(path)

    return handler


def _settings(path: str) -> Dict[str, Any]:
    names = [name for name in os.listdir(path) if name.startswith("profiler_info") and name.endswith(".json")]
    if not names:
        return {}
    with open(os.path.join(path, names[0]), encoding="utf-8") as file:
        return json.load(file)["config"]["experimental_config"]


def _analyse_one(path: str, export_type: Optional[List[str]] = None) -> None:
    from torch_npu.profiler import _communication, _database, _files, _trace

    raw = os.path.join(path, _RAW)
    if not os.path.exists(raw):
        if os.path.isdir(os.path.join(path, _OUTPUT)):
            return  # it was analysed, and its raw data are gone
        raise FileNotFoundError(f"{path} has no {_RAW}: it was not written by torch_npu.profiler")
    settings = _settings(path)
    counters = settings.get("aic_metrics", AiCMetrics.AiCoreNone) != AiCMetrics.AiCoreNone
    kinds = export_type or settings.get("export_type", [ExportType.Text])
    trace = _trace.read(raw)
    _write_metadata(path, _communication.parallel_groups(trace))
    output = os.path.join(path, _OUTPUT)
    _files.write(trace, output, counters)
    if ExportType.Db in kinds:
        _database.write(trace, output)
    if settings.get("data_simplification", True):
        shutil.rmtree(os.path.dirname(raw))


@goes_on
def analyse(profiler_path: str, max_process_number: int = 1, export_type: Union[str, List[str], None] = None) -> None:
    """Makes Ascend's files of all traces (``*_ascend_pt``) in a folder, or of one. ``max_process_number`` is accepted.

    A RuntimeWarning where there are none, for a bad argument, and, once all others are done, for profiles that are not whole: as
    published, a program does not end for them.
    """
    if not isinstance(max_process_number, int) or max_process_number < 1:
        raise ValueError(f"max_process_number {max_process_number!r}: expected a positive number")
    kinds = None if export_type is None else export_type if isinstance(export_type, list) else [export_type]
    for kind in kinds or ():
        if kind not in supported_export_type():
            raise ValueError(f"export_type {kind!r}: expected one of {', '.join(sorted(supported_export_type()))}")
    path = os.path.abspath(profiler_path)
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{profiler_path} is no folder")
    found = [path] if path.endswith(_SUFFIX) else sorted(
        os.path.join(folder, name) for folder, names, _ in os.walk(path) for name in names if name.endswith(_SUFFIX))
    if not found:
        raise FileNotFoundError(f"{profiler_path} has no folder *{_SUFFIX}")
    failed = []
    for folder in found:
        try:
            _analyse_one(folder, kinds)
        except (OSError, ValueError) as error:
            if len(found) == 1:
                raise
            failed.append(f"{folder}: {error}")
    if failed:
        raise ValueError(f"{len(failed)} of {len(found)} profiles cannot be analysed:\n" + "\n".join(failed))
