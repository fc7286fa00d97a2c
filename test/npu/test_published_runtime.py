"""What torch.npu answers at the edges of its arguments, where the published torch_npu's answer is the one that programs know."""

import ctypes
import importlib
import mmap

import pytest
import torch

import torch_npu

two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")


@pytest.mark.parametrize("module, names", [
    ("torch_npu", ["Format", "HiFloat8Tensor", "ParallelStore", "asd", "contrib", "dynamo", "erase_stream", "float8_e8m0fnu", "jit",
                   "matmul_checksum", "npu_fusion_attention", "op_plugin", "optim", "profiler", "testing", "npu", "__version__"]),
    ("torch_npu.npu", ["CubeMathType", "ErrCode", "_initialized", "aclnn", "backends", "default_generators", "npu_config", "set_dump",
                       "npurt", "sdp_kernel", "stress_detect", "utils", "Stream"]),
    ("torch_npu.npu.amp", ["GradScaler", "autocast", "autocast_mode", "common", "grad_scaler", "sharded_grad_scaler"]),
    ("torch_npu.utils", ["FlopsCounter", "cpp_extension", "npu_combine_tensors", "save_async", "serialization", "npu_check_overflow"]),
    ("torch_npu.contrib", ["DCNv2", "Prefetcher", "function", "module", "npu_iou", "transfer_to_npu"]),
    ("torch_npu.contrib.function", ["npu_fused_attention", "roll", "nms"]),
    ("torch_npu.contrib.module", ["Mish", "MultiheadAttention", "roi_align"]),
    ("torch_npu.dynamo", ["NPUGRAPH_EX_BACKEND", "npugraph_ex", "torchair"]),
    ("torch_npu._C", ["_NPUStreamBase", "_npu_getDevice", "_npu_memoryStats", "_device_count"]),
])
def test_dir_lists_what_is_made_when_it_is_asked_for(module, names):
    assert set(names) <= set(dir(importlib.import_module(module)))


def test_operators_that_were_functions_of_torch_say_where_they_are():
    for name in ("npu_linear", "npu_fusion_attention", "_npu_dropout", "one_", "fast_gelu"):
        with pytest.raises(RuntimeError, match=f"torch_npu.{name} "):
            getattr(torch, name)(torch.ones(2))
    assert not hasattr(torch, "npu_no_such_operator") and not hasattr(torch, "no_such_name")
    from torch import npu_linear
    assert npu_linear.__name__ == "npu_linear"


def test_dir_imports_nothing(python):
    done = python("import sys, torch_npu\n"
                  "before = set(sys.modules)\n"
                  "dir(torch_npu), dir(torch_npu.npu), dir(torch_npu.utils), dir(torch_npu.npu.amp)\n"
                  "print(sorted(set(sys.modules) - before))")
    assert done.stdout.strip() in ("[]", "['torch_npu._published.names']"), done.stdout + done.stderr


def test_modules_by_the_name_of_torch_npu_are_the_same_ones(python):
    done = python("import torch, torch_npu\n"
                  "import torch.npu.amp.grad_scaler, torch.npu.memory\n"
                  "from torch.npu.amp.grad_scaler import GradScaler, _refresh_per_optimizer_state\n"
                  "from torch.npu.npu_config import set_option\n"
                  "assert torch.npu.amp is torch_npu.npu.amp and GradScaler is torch_npu.npu.amp.GradScaler\n"
                  "assert torch.npu.memory is torch_npu.npu.memory and set_option is torch.npu.set_option\n"
                  "assert torch.npu.amp.common.GradScaler is GradScaler")
    assert done.returncode == 0, done.stderr


def test_values_are_put_into_torch_by_their_names(python):
    done = python("import types, torch, torch_npu\n"
                  "before = torch.profiler.profile\n"
                  "module = types.ModuleType('more')\n"
                  "module.__all__, module.here, module.there = ['here'], 1, 2\n"
                  "torch_npu._apply_patches([['profiler.profile', torch_npu.profiler.profile], ['a_name', 3], ['profiler', module],\n"
                  "                          ['a_module', module]])\n"
                  "assert torch.profiler.profile is torch_npu.profiler.profile is not before\n"
                  "assert torch.a_name == 3 and torch.a_module is module\n"
                  "assert torch.profiler.here == 1 and not hasattr(torch.profiler, 'there') and torch.profiler is not module\n"
                  "assert torch_npu._apply_all_patches() is None")
    assert done.returncode == 0, done.stderr


def test_the_name_of_the_chip_leaves_the_device_unopened(python):
    done = python("import os, torch, torch_npu\n"
                  "assert torch.npu.get_device_name(0) == torch.npu.get_device_name() and torch.npu.is_bf16_supported()\n"
                  "assert torch.npu.get_soc_version() > 0 and not torch.npu.is_initialized()\n"
                  "child = os.fork()\n"
                  "if child == 0:\n"
                  "    os._exit(torch.ones(2, device='npu').sum().item() != 2)\n"
                  "assert os.waitpid(child, 0)[1] == 0")
    assert done.returncode == 0, done.stderr
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.npu.get_device_name(torch.npu.device_count())


@two_devices
def test_a_negative_index_is_the_current_device():
    with torch.npu.device(1):
        assert torch.npu.current_stream(-1) == torch.npu.current_stream(1)
        assert torch.npu.default_stream(-1) == torch.npu.default_stream(1)
        assert torch.npu.Stream(device=-1).device_index == 1
        torch.npu.synchronize(-1)


def test_leaving_a_device_hides_no_exception():
    context = torch.npu.device(0)
    context.__enter__()
    assert context.__exit__(None, None, None) is False


def test_arguments_of_streams():
    s = torch.npu.Stream()
    assert torch.npu.Stream(stream_ptr=s.npu_stream).npu_stream == s.npu_stream
    with pytest.raises(TypeError, match="'bogus'"):
        torch.npu.Stream(bogus=1)
    assert repr(torch.npu.SyncLaunchStream()).startswith("<torch_npu.npu.SyncLaunchStream device=npu:")
    assert repr(s).startswith("<torch_npu.npu.Stream device=npu:")


def test_arguments_of_events():
    begin, end = torch.npu.Event(enable_timing=1, blocking=0), torch.npu.Event(1)
    begin.record()
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0
    with pytest.raises(TypeError):
        torch.npu.Event(enable_timing="yes")
    for kind in (ValueError, RuntimeError):   # torch.cuda's, and the published torch_npu's
        with pytest.raises(kind, match="interprocess"):
            torch.npu.Event(enable_timing=True, interprocess=True)
        with pytest.raises(kind, match="64 bytes"):
            torch.npu.Event.from_ipc_handle(0, b"abc")
        with pytest.raises(kind, match="npu device"):
            torch.npu.Event.from_ipc_handle("cpu", bytes(64))


def test_memory_is_used_on_streams_of_npus_only():
    with pytest.raises(RuntimeError, match="not on one of cpu"):
        torch.ones(2, device="npu").record_stream(torch.Stream(device="cpu"))


def test_nested_pools():
    outer, inner = torch.npu.MemPool(), torch.npu.MemPool()
    with torch.npu.use_mem_pool(outer):
        with torch.npu.use_mem_pool(inner):
            a = torch.ones(3, device="npu")
        b = torch.ones(3, device="npu")
    for pool, tensor in ((inner, a), (outer, b)):
        segment, = pool.snapshot()
        assert 0 <= tensor.data_ptr() - segment["address"] < segment["total_size"]


def test_a_pool_within_a_capture():
    graph, pool = torch.npu.NPUGraph(), torch.npu.MemPool()
    with torch.npu.graph(graph):
        with torch.npu.use_mem_pool(pool):
            a = torch.ones(3, device="npu")
        b = a + 1
    segment, = pool.snapshot()
    assert 0 <= a.data_ptr() - segment["address"] < segment["total_size"]
    graph.replay()
    assert b.tolist() == [2.0] * 3


def test_statistics_have_pytorchs_names():
    torch.ones(2, device="npu")
    stats = torch.npu.memory_stats()
    assert stats["num_oom_rejections"] == 0 and stats["num_ooms"] >= 0
    assert torch.npu.memory_stats_as_nested_dict()["num_oom_rejections"] == 0


def test_an_address_that_was_not_allocated():
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match="0x3039"):
            torch.npu.caching_allocator_delete(12345)


def test_a_scale_of_one_element():
    scaler = torch.npu.amp.GradScaler(init_scale=8.0)
    scaler.scale(torch.ones((), device="npu"))
    for scale in (torch.tensor([3.0], device="npu"), torch.tensor(3.0, device="npu"), 3, 3.0):
        scaler.update(1.0)
        scaler.update(scale)
        assert scaler.get_scale() == 3.0
    with pytest.raises(AssertionError):
        scaler.update(torch.tensor([3.0, 4.0], device="npu"))


def test_npurt():
    runtime = torch.npu.npurt()
    handle = ctypes.c_void_p()
    assert runtime.npuStreamCreate(ctypes.addressof(handle)) == 0
    stream = torch.npu.ExternalStream(handle.value)
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") + 1
    stream.synchronize()
    assert x.tolist() == [2.0] * 3
    torch.npu.synchronize()
    assert runtime.npuStreamDestroy(handle.value) == 0
    assert runtime.npuStreamDestroy(0) != 0
    page = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert runtime.npuHostRegister(address, mmap.PAGESIZE, 0) == 0
    assert runtime.npuHostRegister(address, mmap.PAGESIZE, 0) != 0
    assert runtime.npuHostUnregister(address) == 0
    assert runtime.npuHostUnregister(address) != 0


def test_sdp_kernel_names_an_empty_dictionary():
    with torch.npu.sdp_kernel(enable_flash=False) as switches:
        assert switches == {} and not torch.npu.flash_sdp_enabled()


def test_a_number_is_no_path(tmp_path):
    with torch_npu.profiler.profile() as profiled:
        torch.ones(2, device="npu") + 1
    with open(tmp_path / "mine", "w") as file:
        with pytest.warns(RuntimeWarning, match="path of a trace"):
            assert profiled.export_chrome_trace(file.fileno()) is None
        file.write("still open")
    assert (tmp_path / "mine").read_text() == "still open"


def test_nothing_to_combine():
    with pytest.raises(RuntimeError, match="None"):
        torch_npu.utils.npu_combine_tensors([torch.ones(2, device="npu"), None])
    assert torch_npu.utils.get_part_combined_tensor(torch.ones(4, device="npu"), 0, 0) is None
