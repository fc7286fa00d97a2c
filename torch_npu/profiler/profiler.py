"""PyTorch's profiler with the arguments and the files of Ascend's."""

import atexit
import gzip
import json
import os
import shutil
import tempfile
import threading
import time
import warnings
import weakref
from typing import IO, Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import torch
from torch.profiler import ProfilerActivity, _KinetoProfile, profile as _torch_profile, supported_activities

from torch_npu import _C
from torch_npu.profiler import _trace
from torch_npu.profiler._garbage import Collections
from torch_npu.profiler._lenient import goes_on
from torch_npu.profiler._profiler_path_creator import SUFFIX as _SUFFIX, ProfPathCreator, new_path, worker
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    ProfilerLevel,
    _ExperimentalConfig,
    reset,
    supported_export_type,
)

__all__ = ["ProfilerActivity", "_KinetoProfile", "analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_RAW = os.path.join("FRAMEWORK", "trace.json")
_METADATA = "profiler_metadata.json"
# Those that a profile keeps, because they change how long things take.
_VARIABLES = ("ASCEND_GLOBAL_LOG_LEVEL", "HCCL_RDMA_TC", "HCCL_RDMA_SL", "ACLNN_CACHE_LIMIT", "HOST_CACHE_CAPACITY",
              "ASCEND_ENHANCE_ENABLE", "PYTORCH_NPU_ALLOC_CONF", "ASCEND_LAUNCH_BLOCKING", "HCCL_ALGO")


_running: "weakref.WeakSet[profile]" = weakref.WeakSet()


def _end_running() -> None:
    """PyTorch crashes where a program ends, say with an exception, within a profile."""
    for running in list(_running):
        running.stop_trace()


atexit.register(_end_running)


class _Files:
    """What a profile's ``prof_if`` is: the folder of its last trace."""

    def __init__(self, profiled: "profile") -> None:
        self._profile = weakref.ref(profiled)
        self._path: Optional[str] = None
        self._written = False

    @property
    def prof_path(self) -> str:
        """The folder of the last trace; it is there once something was written."""
        if self._path is None:
            self._path = ProfPathCreator().new_path()
        return self._path

    def begin(self, path: Optional[str] = None) -> None:
        """Another trace, to be written to ``path``."""
        self._path, self._written = path, False

    def write(self) -> None:
        """Writes the trace as it was recorded, once."""
        profiled = self._profile()
        if profiled is not None and not self._written:
            if profiled.profiler is None:
                raise RuntimeError("the profile was not started, there is no trace")
            _write_raw(profiled, self.prof_path)
            self._written = True

    @goes_on
    def analyse(self) -> None:
        """Writes the trace and the files of Ascend's tools."""
        self.write()
        _analyse_one(self.prof_path)


class profile(_torch_profile):
    """``torch.profiler.profile`` of the host and the NPU: its methods and tables are there, and nothing needs another tool.

    ``experimental_config``: an ``_ExperimentalConfig`` of this package (or PyTorch's own); ``use_cuda`` is accepted.
    ``on_trace_ready=tensorboard_trace_handler(folder)`` writes Ascend's files. A function of the program's own does it by
    ``profile.prof_if.analyse()``, into the folder ``profile.prof_if.prof_path``; where ``ASCEND_WORK_PATH`` says where, or a
    ``ProfPathCreator``, traces are written as they end, and :func:`analyse` makes the files later. Else nothing is written.
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
        self.metadata: Dict[str, Any] = {}
        self.prof_if = _Files(self)
        self._exported: Optional[IO[bytes]] = None
        self._unchanged = (0, 0)
        self._collections: Optional[Collections] = None
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
        told = dict(self.metadata)
        super().start_trace()
        self.prof_if.begin()
        self._exported = None
        self.metadata = told  # without PyTorch's own, which profiler_info.json has
        _C._profile_begun()
        _C._profile_operands(self._records_operands())
        _running.add(self)
        threshold = self.ascend_config.gc_detect_threshold
        if threshold is not None and ProfilerActivity.CPU in self.activities:
            self._collections = Collections(threshold)
            self._collections.start()

    def stop_trace(self) -> None:
        """``torch.profiler.profile.stop_trace``."""
        if self._collections is not None:
            found, self._collections = self._collections.stop(), None
            torch.autograd._add_metadata_json(_trace.COLLECTIONS, json.dumps(found))
        _C._profile_ends()
        _C._profile_operands(False)
        _running.discard(self)
        super().stop_trace()
        if ProfPathCreator().is_told() and not isinstance(self.on_trace_ready, _TraceHandler):
            self._write_trace()

    @goes_on
    def _write_trace(self) -> None:
        self.prof_if.write()

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

    @goes_on
    def add_metadata(self, key: str, value: str) -> None:
        """``torch.profiler.profile.add_metadata``; the text is in profiler_metadata.json, too, whatever characters it has."""
        if not isinstance(value, str):
            raise TypeError(f"the value of metadata is text, not {type(value).__name__}")
        self._keep(key, value)

    @goes_on
    def add_metadata_json(self, key: str, value: str) -> None:
        """``torch.profiler.profile.add_metadata_json``; the value is in profiler_metadata.json, too."""
        self._keep(key, json.loads(value))

    def _keep(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not key:
            raise TypeError(f"the key of metadata is text, not {key!r}")
        super().add_metadata_json(_for_kineto(key), json.dumps(_for_kineto(value), ensure_ascii=False))
        self.metadata[key] = value

    # The published names of arguments, which are not torch's.
    @goes_on
    def export_chrome_trace(self, output_path: str, **options: Any) -> Any:
        """``torch.profiler.profile.export_chrome_trace``, as often as it is called. A number is no path: it would name an open
        file of the process."""
        if isinstance(output_path, int):
            raise TypeError(f"the path of a trace is text, not {output_path}")
        path = os.fspath(output_path)
        if options:
            super().export_chrome_trace(path, **options)
        elif self._exported is not None:
            self._export_again(path)
        elif path.endswith(".gz"):
            with tempfile.NamedTemporaryFile(suffix=".json") as plain:
                super().export_chrome_trace(plain.name)
                self._keep_open(plain.name)
            self._export_again(path)
        else:
            super().export_chrome_trace(path)
            self._keep_open(path)

    def _keep_open(self, path: str) -> None:
        self._exported = open(path, "rb")
        self._unchanged = _state(self._exported)
        weakref.finalize(self, self._exported.close)

    def _export_again(self, path: str) -> None:
        """PyTorch writes a trace once. That file stays open, so that it is there although it may have been removed. RuntimeError
        where it was written to since."""
        assert self._exported is not None
        if _state(self._exported) != self._unchanged:
            raise RuntimeError(f"{self._exported.name}, where this trace was exported to first, was changed since; nothing else "
                               "has the trace")
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(self._exported.fileno())):
            return
        self._exported.seek(0)
        with gzip.open(path, "wb") if path.endswith(".gz") else open(path, "wb") as copy:
            shutil.copyfileobj(self._exported, copy)

    @goes_on
    def export_memory_timeline(self, output_path: str, device: Optional[str] = None) -> Any:
        """``torch.profiler.profile.export_memory_timeline``."""
        return super().export_memory_timeline(output_path, device)

    @goes_on
    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> Any:
        """``torch.profiler.profile.export_stacks``: needs ``with_stack=True``. ``self_npu_time_total`` is a metric, too."""
        return super().export_stacks(output_path, metric.replace("npu", "privateuse1"))


def _state(file: IO[bytes]) -> Tuple[int, int]:
    """What is another once somebody has written to the file."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


_PLAIN = str.maketrans({**{chr(code): " " for code in range(32)}, "\\": "/", '"': "'"})


def _for_kineto(value: Any) -> Any:
    """The value without characters that JSON writes with a backslash: Kineto makes a slash of it, and nothing reads the trace."""
    if isinstance(value, str):
        return value.translate(_PLAIN)
    if isinstance(value, dict):
        return {_for_kineto(key): _for_kineto(item) for key, item in value.items()}
    return [_for_kineto(item) for item in value] if isinstance(value, list) else value


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


def _common_config(profiled: Any) -> Dict[str, Any]:
    """What the profile was told, by the names of its arguments."""
    rounds = ("wait", "active", "warmup", "repeat", "skip_first", "skip_first_wait")
    schedule = getattr(profiled, "schedule", None)
    known = {"activities": [str(activity).replace("PrivateUse1", "NPU") for activity in getattr(profiled, "activities", ())],
             "schedule": {name: getattr(schedule, name) for name in rounds if hasattr(schedule, name)}}
    flags = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
    return {**known, **{name: bool(getattr(profiled, name, False)) for name in flags}}


def _info(profiled: Any, config: _ExperimentalConfig, begun: float) -> Dict[str, Any]:
    import torch_npu

    settings = {"common_config": _common_config(profiled), "experimental_config": vars(config)}
    return {"config": settings, "start_info": {"time": begun}, "end_info": {"time": time.time()},
            "torch_npu_version": torch_npu.__version__,
            "cann_version": torch_npu.runtime_info()["cann_version"], "rank_id": _rank()}


def _write_metadata(path: str, **entries: Any) -> Dict[str, Any]:
    """Puts the entries beside those that profiler_metadata.json has. Returns all."""
    name = os.path.join(path, _METADATA)
    if os.path.exists(name):
        with open(name, encoding="utf-8") as file:
            entries = {**json.load(file), **entries}
    with open(name, "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return entries


def _metadata(profiled: Any) -> Dict[str, Any]:
    variables = {name: os.environ.get(name, "") for name in _VARIABLES}
    own = {"ENV_VARIABLES": variables, "distributed_info": {}, "parallel_group_info": {}}
    if hasattr(profiled, "get_trace_id"):
        own["trace_id"] = profiled.get_trace_id()
    return {**getattr(profiled, "metadata", {}), **own}


def tensorboard_trace_handler(dir_name: Optional[str] = None, worker_name: Optional[str] = None, analyse_flag: bool = True,
                              async_mode: bool = False) -> Callable[[Any], None]:
    """For ``on_trace_ready``: writes each trace to ``dir_name/<worker>_<process>_<time>_ascend_pt``; without ``dir_name`` in
    ``$ASCEND_WORK_PATH/profiling_data``, or the current folder. ``worker_name``: the host's name by default.

    A name that cannot be one becomes the default, with a warning in the log. analyse_flag: the files of Ascend's tools at once;
    else :func:`analyse` makes them later. async_mode: on a thread.
    """
    if dir_name is not None and not isinstance(dir_name, (str, os.PathLike)):
        dir_name = reset("dir_name", dir_name, None)
    return _TraceHandler(None if dir_name is None else os.path.abspath(dir_name), worker(worker_name), analyse_flag, async_mode)


class _TraceHandler:
    """What :func:`tensorboard_trace_handler` returns."""

    def __init__(self, folder: Optional[str], worker: Optional[str], analyse_flag: bool, async_mode: bool) -> None:
        self._folder = folder
        self._worker = worker
        self._analyse = analyse_flag
        self._async = async_mode

    def __call__(self, profiled: Any) -> None:
        path = new_path(self._folder, self._worker)
        if isinstance(profiled, profile):
            profiled.prof_if.begin(path)
            profiled.prof_if.write()
        else:
            _write_raw(profiled, path)
        if not self._analyse:
            return
        if self._async:
            threading.Thread(target=_analyse_one, args=(path,), name="torch_npu.profiler").start()
        else:
            _analyse_one(path)


def _write_raw(profiled: Any, path: str) -> None:
    """The trace, and what was asked of the profile, of which :func:`analyse` makes the rest."""
    config = getattr(profiled, "ascend_config", None) or _ExperimentalConfig()
    now = time.time()
    os.makedirs(os.path.dirname(os.path.join(path, _RAW)), mode=0o750, exist_ok=True)
    profiled.export_chrome_trace(os.path.join(path, _RAW))
    rank = _rank()
    with open(os.path.join(path, f"profiler_info{'' if rank < 0 else f'_{rank}'}.json"), "w", encoding="utf-8") as file:
        json.dump(_info(profiled, config, now), file, indent=2)
    _write_metadata(path, **_metadata(profiled))


def _settings(path: str) -> Dict[str, Any]:
    names = [name for name in os.listdir(path) if name.startswith("profiler_info") and name.endswith(".json")]
    if not names:
        return {}
    with open(os.path.join(path, names[0]), encoding="utf-8") as file:
        return json.load(file)["config"]["experimental_config"]


def _analyse_one(path: str, export_type: Optional[List[str]] = None) -> None:
    from torch_npu.profiler import _communication, _database, _files

    raw = os.path.join(path, _RAW)
    if not os.path.exists(raw):
        if os.path.isdir(os.path.join(path, _OUTPUT)):
            return  # it was analysed, and its raw data are gone
        raise FileNotFoundError(f"{path} has no {_RAW}: it was not written by torch_npu.profiler")
    settings = _settings(path)
    counters = settings.get("_aic_metrics", AiCMetrics.AiCoreNone) != AiCMetrics.AiCoreNone
    kinds = export_type or settings.get("_export_type", [ExportType.Text])
    trace = _trace.read(raw)
    metadata = _write_metadata(path, parallel_group_info=_communication.parallel_groups(trace))
    output = os.path.join(path, _OUTPUT)
    _files.write(trace, output, counters)
    if ExportType.Db in kinds:
        _database.write(trace, output, metadata)
    if settings.get("_data_simplification", True):
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
