"""Importing: autoload, versions, cost, and that `import torch` survives a torch_npu that cannot work."""

import re
import sys
import textwrap

import pytest

from torch_npu._bootstrap import check_torch_version


def test_autoload(python):
    run = python("import torch; print(torch.npu.is_available(), torch.ones(2).npu().sum().item())", fresh=True)
    assert run.stdout.split() == ["True", "2.0"], run.stderr
    assert run.stderr == ""


def test_autoload_can_be_turned_off(python):
    code = "import torch; print(hasattr(torch, 'npu')); import torch_npu; print(torch.npu.device_count() > 0)"
    run = python(code, fresh=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert run.stdout.split() == ["False", "True"], run.stderr


@pytest.mark.parametrize("first", ["torch", "torch_npu"])
def test_either_import_first(python, first):
    second = {"torch": "torch_npu", "torch_npu": "torch"}[first]
    run = python(f"import {first}; import {second}; print(torch.ones(2, device='npu').tolist(), torch_npu.__version__)", fresh=True)
    assert run.stdout.startswith("[1.0, 1.0]"), run.stderr
    assert run.stderr == ""


BROKEN = textwrap.dedent(
    """
    import importlib.abc, sys
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "torch_npu._C":
                raise ImportError("undefined symbol: nowhere")
    sys.meta_path.insert(0, Broken())
    """
)


@pytest.mark.parametrize("options", ["", "import warnings; warnings.simplefilter('error')"])
def test_import_torch_survives_a_broken_torch_npu(python, options):
    code = BROKEN + options + textwrap.dedent(
        """
        import torch
        print(torch.ones(2).sum().item(), hasattr(torch, "npu"), "torch_npu" in sys.modules)
        try:
            import torch_npu
        except ImportError as error:
            print(error)
        """
    )
    run = python(code, fresh=True)
    lines = run.stdout.splitlines()
    assert lines[0] == "2.0 False False", run.stderr
    assert "undefined symbol: nowhere" in lines[1] and "reinstall torch_npu" in lines[1]
    assert run.stderr.count("torch_npu was not loaded") == 1


def test_another_torch_minor_is_one_clear_sentence():
    check_torch_version("2.13.0+cpu", "2.13.1")
    check_torch_version("2.13.0", None)
    with pytest.raises(ImportError) as error:
        check_torch_version("2.13.0+cpu", "2.9.1")
    text = str(error.value)
    assert "built for torch 2.9" in text and "torch 2.13.0+cpu is installed" in text
    assert "pip install 'torch==2.9.*'" in text and "\n" not in text


def test_wheel_of_another_minor_does_not_break_import_torch(python):
    code = textwrap.dedent(
        """
        import sys, types
        info = types.ModuleType("torch_npu._build_info")
        info.version, info.git_version, info.torch_version = "2.1.0", "abc", "2.1.0"
        sys.modules["torch_npu._build_info"] = info
        import torch
        print(torch.ones(1).item(), hasattr(torch, "npu"))
        """
    )
    run = python(code, fresh=True)
    assert run.stdout.split() == ["1.0", "False"], run.stderr
    assert "built for torch 2.1" in run.stderr


def test_import_opens_no_cann_and_starts_nothing(python):
    code = textwrap.dedent(
        """
        import torch, torch_npu, threading
        maps = open("/proc/self/maps").read()
        print("libascendcl" in maps, "torch._dynamo" in __import__("sys").modules, torch.npu.is_initialized())
        print(torch_npu._C._opened_libraries())
        """
    )
    run = python(code, fresh=True)
    assert run.stdout.splitlines() == ["False False False", "{}"], run.stderr


def test_every_module_can_be_imported_and_says_what_is_public(python):
    """In whatever order; a module that can be imported from ("*") has the names that it promises, and no others."""
    code = textwrap.dedent(
        """
        import importlib, pkgutil, torch_npu
        for _, name, package in pkgutil.walk_packages(torch_npu.__path__, "torch_npu."):
            if name.rpartition(".")[2] == "__main__":
                continue
            module = importlib.import_module(name)
            public = not any(part.startswith("_") for part in name.split("."))
            missing = [each for each in getattr(module, "__all__", ()) if not hasattr(module, each)]
            made = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == name and each[:1] != "_"]
            if missing or public and not package and made and not hasattr(module, "__all__"):
                print(name, missing)
        """
    )
    run = python(code, fresh=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_versions(python):
    run = python("import torch_npu; torch_npu.version(); print(torch_npu.version.git_version)", fresh=True)
    assert "torch_npu: " in run.stdout and "CANN: " in run.stdout and "commit: " in run.stdout, run.stderr


def test_public_names():
    import torch_npu

    for name in ("runtime_info", "run_check", "fallbacks", "reset_fallbacks", "version", "npu"):
        assert hasattr(torch_npu, name)
    import torch

    for name in ("FloatTensor", "Stream", "Event", "amp", "matmul", "conv", "config", "default_generators", "_initialized"):
        assert hasattr(torch.npu, name)
    with pytest.raises(AttributeError):
        torch.npu.no_such_name
    assert torch.npu is sys.modules["torch.npu"]


# Public names of torch.cuda that torch.npu lacks on purpose.
ABSENT = {
    "export_dot", "export_graph_data", "graph_annotations",  # what a CUDA graph looks like inside
    "CudaError", "DeferredCudaCallError", "check_error", "cudaStatus", "cudart",  # CUDA's runtime library
    "current_solver_handle", "gds", "jiterator", "nccl", "nvtx", "profiler", "sparse", "tunable",  # CUDA's other libraries
    "GreenContext", "green_contexts",  # parts of a GPU; set_device_limit and set_stream_limit are what CANN has
    "get_gencode_flags", "has_half", "has_magma", "is_tf32_supported",  # how torch was built for CUDA, and its number format
}
RENAMED = {"CUDAGraph": "NPUGraph", "CUDAPluggableAllocator": "NPUPluggableAllocator"}


def names_of_cuda():
    import torch

    own = {name for name, value in vars(torch.cuda).items() if not name.startswith("_")
           and re.fullmatch(r"torch(\.cuda.*)?", getattr(value, "__module__", None) or "")}
    return own.union(*(module.__all__ for module in (torch.cuda, torch.cuda.memory, torch.cuda.random)))


def test_the_names_of_torch_cuda_are_there_but_for_a_known_few():
    import torch

    assert len(names_of_cuda()) > 100
    missing = {name for name in names_of_cuda() if not hasattr(torch.npu, RENAMED.get(name, name))}
    assert missing - ABSENT == set()
    assert {name for name in ABSENT if hasattr(torch.npu, RENAMED.get(name, name))} == set()
    assert set(torch.cuda.memory.__all__) - {"CUDAPluggableAllocator"} <= set(torch.npu.memory.__all__)
    for name in ("_get_rng_state_offset", "_set_rng_state_offset", "_lazy_call", "_lazy_init", "_is_in_bad_fork"):
        assert hasattr(torch.npu, name)
    assert torch.npu.OutOfMemoryError is torch.OutOfMemoryError and torch.npu.AcceleratorError is torch.AcceleratorError


@pytest.mark.parametrize("name", ["current_solver_handle"])
def test_what_is_not_there_yet_is_absent_and_says_so(name):
    import torch

    assert not hasattr(torch.npu, name) and getattr(torch.npu, name, None) is None and name not in dir(torch.npu)
    with pytest.raises(NotImplementedError, match=f"torch.npu.{name}: ") as error:
        getattr(torch.npu, name)
    assert "\n" not in str(error.value)
