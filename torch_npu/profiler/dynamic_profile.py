"""Profiles of a running program, asked for by a file.

    from torch_npu.profiler import dynamic_profile as dp
    dp.init("./config")          # watches ./config/profiler_config.json, which is written with its defaults if it is not there
    for batch in loader:
        train(batch)
        dp.step()

When the file changes, the next ``active`` steps after ``start_step`` are recorded into ``prof_dir``.
"""

import json
import logging
import os
from typing import Any, Dict, Optional

from torch_npu import _options
from torch_npu.profiler import experimental_config, profiler, scheduler
from torch_npu.profiler._lenient import goes_on

__all__ = ["init", "set_state", "start", "step"]

_log = logging.getLogger("torch_npu.profiler")
_FILE = "profiler_config.json"
_DEFAULTS: Dict[str, Any] = {
    "activities": ["CPU", "NPU"], "prof_dir": "./", "analyse": False, "record_shapes": False, "profile_memory": False,
    "with_stack": False, "with_flops": False, "with_modules": False, "active": 1, "warmup": 0, "start_step": 0, "is_rank": False,
    "rank_list": [], "experimental_config": {
        "profiler_level": "Level0", "aic_metrics": "AiCoreNone", "l2_cache": False, "op_attr": False, "gc_detect_threshold": None,
        "data_simplification": True, "record_op_args": False, "export_type": ["text"], "mstx": False, "mstx_domain_include": [],
        "mstx_domain_exclude": [], "host_sys": [], "sys_io": False, "sys_interconnection": False},
}


class _Watch:
    def __init__(self) -> None:
        self.path: Optional[str] = None
        self.seen = 0.0
        self.steps = 0
        self.first_step = 0
        self.waiting: Optional[Dict[str, Any]] = None
        self.running: Optional[profiler.profile] = None
        self.left = 0

    def look(self) -> None:
        """Takes a configuration that is newer than the last."""
        if self.path is None:
            return
        try:
            changed = os.stat(self.path).st_mtime_ns
        except OSError:
            return
        if changed != self.seen:
            self.seen = changed
            try:
                self.waiting = _read(self.path)
            except (OSError, ValueError) as error:  # a watched file must not stop the program
                _log.error("%s is not used: %s", self.path, error)

    def begin(self, config: Dict[str, Any]) -> None:
        self.waiting = None
        if config["is_rank"] and config["rank_list"] and profiler._rank() not in config["rank_list"]:
            return
        kinds = {"CPU": profiler.ProfilerActivity.CPU, "NPU": profiler.ProfilerActivity.PrivateUse1}
        extra = dict(config["experimental_config"])
        metrics = experimental_config.AiCMetrics
        extra["aic_metrics"] = getattr(metrics, str(extra.get("aic_metrics")), extra.get("aic_metrics"))
        self.left = config["warmup"] + config["active"]
        running = profiler.profile(
            activities=[kinds[name] for name in config["activities"]],
            schedule=scheduler.schedule(wait=0, warmup=config["warmup"], active=config["active"], repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(config["prof_dir"], analyse_flag=config["analyse"]),
            **{name: config[name] for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")},
            experimental_config=experimental_config._ExperimentalConfig(**extra))
        try:
            running.start()
        except RuntimeError as error:  # the program's own profile runs
            _log.error("no profile is taken: %s", error)
            return
        self.running = running

    def step(self) -> None:
        self.steps += 1
        if self.running is not None:
            self.running.step()
            self.left -= 1
            if self.left == 0:
                self.running.stop()
                self.running = None
        if self.running is None:
            self.look()
            if self.waiting is not None and self.steps >= self.waiting["start_step"]:
                self.begin(self.waiting)


_watch = _Watch()


def _read(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    if not isinstance(given, dict):
        raise ValueError("expected an object of settings")
    config = {**_DEFAULTS, **given}
    config["experimental_config"] = config["experimental_config"] or {}
    for name, default in _DEFAULTS.items():
        value = config[name]
        if type(value) is not type(default) or (type(value) is int and value < 0):
            raise ValueError(f"{name} is {value!r}: expected such as {default!r}")
    if config["active"] < 1:
        raise ValueError("active is 0: expected a positive number of steps")
    unknown = [name for name in config["activities"] if name not in ("CPU", "NPU")]
    if unknown:
        raise ValueError(f"activities has {', '.join(map(repr, unknown))}: expected CPU and NPU")
    config["experimental_config"] = _known_settings(config["experimental_config"])
    return config


def _known_settings(given: Dict[str, Any]) -> Dict[str, Any]:
    defaults = _DEFAULTS["experimental_config"]
    unknown = sorted(given.keys() - defaults.keys())
    if unknown:
        _log.warning("experimental_config has no %s: left out", ", ".join(unknown))
    return {name: given.get(name, default) for name, default in defaults.items()}


@goes_on
def init(path: Optional[str] = None) -> None:
    """Watches ``path/profiler_config.json`` (PROF_CONFIG_PATH by default) from now on. What it says already is not recorded:
    it must change first."""
    path = path or _options.published("PROF_CONFIG_PATH")
    if not path:
        raise ValueError("dynamic_profile.init needs the folder of profiler_config.json, or PROF_CONFIG_PATH")
    os.makedirs(path, exist_ok=True)
    file = os.path.join(path, _FILE)
    if not os.path.exists(file):
        with open(file, "w", encoding="utf-8") as out:
            json.dump(_DEFAULTS, out, indent=4)
    _watch.path, _watch.seen, _watch.steps, _watch.waiting = file, os.stat(file).st_mtime_ns, _watch.first_step, None


def set_state(state_step: Dict[str, Any]) -> None:
    """Before :func:`init`, for a training that goes on: ``{"cur_step": 10}`` is the number of steps that were made before."""
    step_made = state_step.get("cur_step") if isinstance(state_step, dict) else None
    if not isinstance(step_made, int) or step_made < 0:
        raise ValueError(f"dynamic_profile.set_state takes a dict with a number of steps in cur_step, not {state_step!r}")
    _watch.first_step = step_made


@goes_on
def start(config_path: Optional[str] = None) -> None:
    """Records from the next :func:`step` on, as a file says (by default the one that is watched)."""
    path = config_path or _watch.path
    if path is None:
        raise ValueError("dynamic_profile.start needs a file, or dynamic_profile.init before it")
    _watch.waiting = {**_read(path), "start_step": 0}


def step() -> None:
    """The program has made a step."""
    _watch.step()
