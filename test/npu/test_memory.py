"""The caching allocator as a program sees it: statistics, reuse, limits, snapshots, pools."""
import gc
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import textwrap

import pytest
import torch
from held_stream import held

import torch_npu  # noqa: F401

MIB = 1 << 20


def npu(size, **kwargs):
    """A tensor of ``size`` bytes."""
    return torch.empty(size, dtype=torch.uint8, device="npu", **kwargs)


@pytest.fixture(autouse=True)
def clean():
    torch.npu.init()
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    yield


@pytest.fixture
def run(python):
    """Runs code in a fresh process: its return code, output and errors."""
    def run(code, **environment):
        done = python(textwrap.dedent(code), **environment)
        return done.returncode, done.stdout.strip(), done.stderr
    return run


def alone(test):
    """Runs the test in a process of its own: it looks at segments, and others leave theirs half used."""
    name = test.__name__

    def in_own_process(run, tmp_path):
        arguments = f"pathlib.Path({str(tmp_path)!r})" if "tmp_path" in inspect.signature(test).parameters else ""
        failed, _, errors = run(f"""
            import pathlib, sys
            sys.path[:0] = [{str(pathlib.Path(__file__).parent)!r}, {str(pathlib.Path(__file__).parents[1])!r}]
            import test_memory
            test_memory.{name}.test({arguments})
            """)
        assert not failed, errors
    in_own_process.test = test
    return in_own_process


@alone
def test_allocated_and_reserved():
    before, reserved = torch.npu.memory_allocated(), torch.npu.memory_reserved()
    a = npu(1000)
    assert torch.npu.memory_allocated() - before == 1024
    b = npu(3 * MIB)
    assert torch.npu.memory_allocated() - before == 1024 + 3 * MIB
    assert torch.npu.memory_reserved() >= reserved + 20 * MIB
    del b
    assert torch.npu.memory_allocated() - before == 1024
    assert torch.npu.max_memory_allocated() - before == 1024 + 3 * MIB
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() - before == 1024
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= reserved + 2 * MIB
    del a


def test_stats_have_torch_cudas_keys():
    stats = torch.npu.memory_stats()
    for what in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                 "active_bytes", "inactive_split_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for figure in ("current", "peak", "allocated", "freed"):
                assert isinstance(stats[f"{what}.{pool}.{figure}"], int)
    for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free",
                 "max_split_size", "oversize_allocations.current", "oversize_segments.peak"):
        assert isinstance(stats[name], int)
    assert list(stats) == sorted(stats)
    nested = torch.npu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.npu.memory_allocated()


def test_accelerator_interface():
    a = npu(5 * MIB)
    if hasattr(torch.accelerator, "memory_allocated"):
        assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated()
        assert torch.accelerator.memory_stats()["active.all.current"] == torch.npu.memory_stats()["active.all.current"]
        torch.accelerator.empty_cache()
    assert torch.npu.memory_allocated() >= a.numel()


def test_accumulated_stats_reset():
    torch.npu.reset_accumulated_memory_stats()
    npu(2000)
    stats = torch.npu.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 1
    assert stats["requested_bytes.all.allocated"] == 2000


def test_freed_memory_is_reused():
    a = npu(7 * MIB)
    address = a.data_ptr()
    del a
    assert npu(7 * MIB).data_ptr() == address


def test_other_streams_do_not_share():
    side = torch.npu.Stream()
    a = npu(7 * MIB)
    address = a.data_ptr()
    del a
    with torch.npu.stream(side):
        assert npu(7 * MIB).data_ptr() != address


def test_record_stream_keeps_memory_until_the_stream_has_passed():
    side = torch.npu.Stream()
    with held(side) as let_go:
        a = npu(4 * MIB)
        address = a.data_ptr()
        a.record_stream(side)
        before = torch.npu.memory_stats()
        del a
        after = torch.npu.memory_stats()
        assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"] - 4 * MIB
        assert after["active_bytes.all.current"] == before["active_bytes.all.current"]
        assert npu(4 * MIB).data_ptr() != address
        let_go()
        torch.npu.synchronize()
        assert torch.npu.memory_stats()["active_bytes.all.current"] == after["allocated_bytes.all.current"]


def test_out_of_memory_has_the_figures_and_work_goes_on():
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    a = torch.ones(1000, device="npu")
    ooms = torch.npu.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate .* on npu:0, which has .* in total"):
        npu(total + MIB)
    assert torch.npu.memory_stats()["num_ooms"] == ooms + 1
    assert (a + 1).sum().item() == 2000


def test_out_of_memory_frees_the_cache_first():
    free, _ = torch.npu.mem_get_info()
    side = torch.npu.Stream()
    large = free // 10 * 6
    a = npu(large)
    del a
    retries = torch.npu.memory_stats()["num_alloc_retries"]
    with torch.npu.stream(side):
        b = npu(large)  # the other stream's cache must go
    assert torch.npu.memory_stats()["num_alloc_retries"] == retries + 1
    del b


def test_out_of_memory_observer():
    seen = []
    torch.npu.memory._attach_out_of_memory_observer(lambda *figures: seen.append(figures))
    total = torch.npu.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError):
        npu(2 * total)
    assert len(seen) == 1
    device, asked, device_total, _ = seen[0]
    assert (device, asked, device_total) == (0, 2 * total, total)


def test_memory_fraction():
    total = torch.npu.mem_get_info()[1]
    assert torch.npu.get_per_process_memory_fraction() == 1.0
    torch.npu.set_per_process_memory_fraction(0.01)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="may use at most"):
            npu(total // 50)
        npu(total // 1000)
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    npu(total // 50)
    with pytest.raises(ValueError, match="from 0 to 1"):
        torch.npu.set_per_process_memory_fraction(2.0)
    with pytest.raises(TypeError):
        torch.npu.set_per_process_memory_fraction("half")


def test_raw_allocation():
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(4096)
    assert address != 0 and torch.npu.memory_allocated() == before + 4096
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before
    with pytest.raises(ValueError, match="not an address"):
        torch.npu.caching_allocator_delete(address)
    on_side = torch.npu.caching_allocator_alloc(4096, stream=torch.npu.Stream())
    torch.npu.caching_allocator_delete(on_side)


def test_caching_can_be_turned_off():
    torch.npu.caching_allocator_enable(False)
    try:
        free = torch.npu.mem_get_info()[0]
        a = npu(40 * MIB)
        assert torch.npu.mem_get_info()[0] <= free - 40 * MIB
        del a
        assert torch.npu.mem_get_info()[0] == free
    finally:
        torch.npu.caching_allocator_enable(True)


def test_summary_prints_every_statistic():
    a = npu(30 * MIB)
    text = torch.npu.memory_summary()
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "device ID 0" in lines[1] and "from small pool" in text
    row = next(line for line in lines if "Allocated memory" in line)
    assert "KiB" in row or "MiB" in row
    short = torch.npu.memory_summary(abbreviated=True)
    assert "from small pool" not in short and len(short) < len(text)
    del a


@alone
def test_snapshot_opens_in_pytorchs_tools(tmp_path):
    torch.npu.memory._record_memory_history(max_entries=1000)
    try:
        kept = npu(5 * MIB)
        npu(6 * MIB)
        torch.npu.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
        frames = torch.npu.memory._allocation_traceback(kept.data_ptr())
    finally:
        torch.npu.memory._record_memory_history(None)
    assert any(frame["filename"] == __file__ for frame in frames)
    with open(tmp_path / "snapshot.pickle", "rb") as file:
        snapshot = pickle.load(file)
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") == 2 and "free_completed" in actions and "segment_alloc" in actions
    block = next(
        block for segment in snapshot["segments"] for block in segment["blocks"] if block["address"] == kept.data_ptr()
    )
    assert block["state"] == "active_allocated" and block["size"] == block["requested_size"] == 5 * MIB
    assert any(frame["name"] == "test_snapshot_opens_in_pytorchs_tools" for frame in block["frames"])

    from torch.cuda import _memory_viz

    assert "<!doctype html>" in _memory_viz.trace_plot(snapshot).lower()
    assert _memory_viz.segsum(snapshot)
    assert _memory_viz.trace(snapshot)


@pytest.mark.skipif(torch.__version__ < torch.torch_version.TorchVersion("2.9"), reason="torch 2.8 fetches the script to a folder for all users")
def test_flame_graphs_of_a_snapshot(tmp_path, monkeypatch):
    script = tmp_path / ".cache" / "flamegraph.pl"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\ncat\n")
    script.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    held = npu(3 * MIB)
    torch.npu.memory._save_segment_usage(tmp_path / "segments.svg")
    torch.npu.memory._save_memory_usage(tmp_path / "memory.svg", torch.npu.memory._snapshot())
    for name, prefix in (("segments", r"stream_0;seg_\d+"), ("memory", "stream_0")):
        lines = (tmp_path / f"{name}.svg").read_text().splitlines()
        sizes = [int(found[1]) for line in lines if (found := re.fullmatch(prefix + r";active_allocated;.* (\d+)", line))]
        assert held.nbytes in sizes, lines


def test_snapshot_covers_what_is_reserved():
    kept = [npu(n) for n in (100, 5000, 3 * MIB, 30 * MIB)]
    segments = torch.npu.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == torch.npu.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == torch.npu.memory_allocated()
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    del kept


def test_history_keeps_no_stacks_when_told_so():
    torch.npu.memory._record_memory_history("all", context=None, clear_history=True)
    try:
        npu(1000)
        trace = torch.npu.memory._snapshot()["device_traces"][0]
    finally:
        torch.npu.memory._record_memory_history(None)
    assert trace and all(entry["frames"] == [] for entry in trace)
    assert torch.npu.memory._snapshot()["device_traces"][0] == []   # dropped when recording ends
    with pytest.raises(ValueError, match="context"):
        torch.npu.memory._record_memory_history(context="some")


def test_mem_pool():
    pool = torch.npu.MemPool()
    outside = npu(3 * MIB)
    with torch.npu.use_mem_pool(pool):
        inside = npu(3 * MIB)
        assert pool.use_count() == 2
    assert pool.use_count() == 1
    segments = pool.snapshot()
    assert [segment["total_size"] for segment in segments] == [20 * MIB]
    start = segments[0]["address"]
    assert start <= inside.data_ptr() < start + 20 * MIB
    assert not start <= outside.data_ptr() < start + 20 * MIB
    assert segments[0]["segment_pool_id"] == pool.id
    identity = pool.id
    del inside, pool
    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_snapshot(identity) == []


def test_storage_resize_keeps_the_data():
    a = torch.arange(1000, device="npu", dtype=torch.int32)
    storage = a.untyped_storage()
    storage.resize_(8000)
    assert storage.nbytes() == 8000
    assert a.sum().item() == 499500
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_settings_at_run_time(run):
    """In a process of its own: elsewhere the tensor may find room in a segment that an earlier test still uses."""
    failed, output, errors = run("""
        import torch, torch_npu
        torch.npu.memory._set_allocator_settings("expandable_segments:True")
        a = torch.ones(8 << 20, device="npu")
        assert a.sum().item() == 8 << 20
        print(any(s["is_expandable"] and s["total_size"] >= 32 << 20 for s in torch.npu.memory_snapshot()))
    """)
    assert not failed, errors
    assert output == "True"
    with pytest.raises(ValueError, match="unknown key 'colour'"):
        torch.npu.memory._set_allocator_settings("colour:blue")


def test_environment_settings(run):
    code = """
        import torch, torch_npu
        x = torch.ones(8, device="npu")
        print(torch.npu.memory_snapshot()[0]["is_expandable"])
    """
    assert run(code, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")[1] == "True"
    assert run(code, PYTORCH_ALLOC_CONF="expandable_segments:True")[1] == "True"
    both = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "max_split_size_mb:50"}
    failed, _, errors = run(code, **both)
    assert failed and "set one of them" in errors
    failed, _, errors = run(code, PYTORCH_NPU_ALLOC_CONF="max_split:50")
    assert failed and "unknown key 'max_split'" in errors


@pytest.mark.parametrize("variable", ["PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_published_settings_of_segments(run, variable):
    code = """
        import torch, torch_npu
        x = torch.ones(1 << 19, device="npu")
        print(torch.npu.memory_reserved() >> 20)
    """
    assert run(code, **{variable: "large_segment_size_mb:50"})[1] == "50"
    assert run(code, **{variable: "expandable_segments:True,segment_size_mb:40"})[1] == "40"
    failed, output, errors = run(code, **{variable: "page_size:1g,pinned_mem_register:True,release_lock_on_npumalloc:True"})
    assert not failed and output == "20"
    assert "nothing follows from page_size" in errors and "pinned_mem_register" in errors and "release_lock" not in errors


def test_environment_no_caching(run):
    code = """
        import torch, torch_npu
        x = torch.ones(1000, device="npu")
        del x
        print(torch.npu.memory_reserved())
    """
    assert run(code, PYTORCH_NO_NPU_MEMORY_CACHING="1")[1] == "0"


def test_oom_snapshot_option(run, tmp_path):
    code = """
        import torch, torch_npu
        try:
            torch.empty(1 << 45, device="npu")
        except torch.OutOfMemoryError:
            print("caught")
    """
    _, out, errors = run(code, OOM_SNAPSHOT_ENABLE="1", OOM_SNAPSHOT_PATH=str(tmp_path))
    assert out == "caught", errors
    (file,) = tmp_path.glob("oom_snapshot_*.pickle")
    with open(file, "rb") as opened:
        assert any(entry["action"] == "oom" for entry in pickle.load(opened)["device_traces"][0])


def test_pluggable_allocator(run, tmp_path):
    # Wraps the device's own allocator, counting.
    source = tmp_path / "counting.cpp"
    source.write_text(
        """
        #include <cstddef>
        #include <dlfcn.h>
        static long live = 0;
        extern "C" {
        typedef int (*Malloc)(void**, size_t, int);
        typedef int (*Free)(void*);
        static void* symbol(const char* name) { return dlsym(dlopen("libascendcl.so", RTLD_NOLOAD | RTLD_LAZY), name); }
        void* take(size_t bytes, int, void*) {
          void* ptr = nullptr;
          ((Malloc)symbol("aclrtMalloc"))(&ptr, bytes, 0);
          ++live;
          return ptr;
        }
        void give(void* ptr, size_t, int, void*) { ((Free)symbol("aclrtFree"))(ptr); --live; }
        long count() { return live; }
        }
        """
    )
    library = tmp_path / "libcounting.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
    code = f"""
        import ctypes, torch, torch_npu
        allocator = torch.npu.NPUPluggableAllocator({str(library)!r}, "take", "give")
        count = ctypes.CDLL({str(library)!r}).count
        {{body}}
    """
    changed = """
        torch.npu.change_current_allocator(allocator)
        x = torch.ones(10, device="npu")
        print((x + x).sum().item(), count() > 0, torch.npu.get_allocator_backend())
    """
    _, out, errors = run(code.format(body=changed.strip()))
    assert out == "20.0 True pluggable", errors
    pooled = """
        pool = torch.npu.MemPool(allocator)
        with torch.npu.use_mem_pool(pool):
            x = torch.ones(10, device="npu")
        print(x.sum().item(), count(), torch.npu.get_allocator_backend())
    """
    _, out, errors = run(code.format(body=pooled.strip()))
    assert out == "10.0 1 native", errors
    late = """
        x = torch.ones(10, device="npu")
        torch.npu.change_current_allocator(allocator)
    """
    failed, _, errors = run(code.format(body=late.strip()))
    assert failed and "before the first tensor" in errors


def test_profiler_sees_memory():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        a = npu(3 * MIB)
        del a
    sizes = [event.device_memory_usage for event in profile.events()]
    assert 3 * MIB in sizes


def test_deprecated_names_warn():
    with pytest.warns(FutureWarning, match="memory_reserved"):
        assert torch.npu.memory_cached() == torch.npu.memory_reserved()


def test_memory_returns_to_the_start_after_work():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).npu()
    x = torch.randn(32, 64, device="npu")
    for _ in range(3):
        model(x).sum().backward()
        model.zero_grad(set_to_none=True)
    start = torch.npu.memory_allocated(), torch.npu.memory_reserved()
    for _ in range(50):
        model(x).sum().backward()
        model.zero_grad(set_to_none=True)
    assert (torch.npu.memory_allocated(), torch.npu.memory_reserved()) == start


def test_mixed_sizes_do_not_grow_the_pool():
    rows = [npu(512 * (i % 64 + 1)) for i in range(2000)]
    reserved = torch.npu.memory_reserved()
    for _ in range(20):
        rows = [npu(512 * ((i * 7) % 64 + 1)) for i in range(2000)]
    assert torch.npu.memory_reserved() <= 2 * reserved + 4 * MIB
    del rows


def test_statistics_do_not_open_devices(run, tmp_path):
    trace = tmp_path / "trace"
    code, _, errors = run("""
        import torch, torch_npu
        torch.ones(1, device="npu:0")
        assert torch.npu.memory_allocated(1) == torch.npu.memory_reserved(2) == 0
        torch.npu.reset_peak_memory_stats(3)
        assert torch.npu.memory_stats(3)["num_ooms"] == 0
    """, SOFTCANN_DEVICE_COUNT=4, SOFTCANN_TRACE=trace)
    assert code == 0, errors
    opened = [line for line in trace.read_text().splitlines() if "aclrtSetDevice" in line]
    assert sum(line.split()[2] == "aclrtSetDevice" for line in opened) == 1, opened


OUT_OF_MEMORY_IN_TWO_THREADS = """
import faulthandler, sys, threading
sys.path.insert(0, {folder!r})
import torch, torch_npu
from held_stream import held
faulthandler.dump_traceback_later(300, exit=True)
MIB, results = 1 << 20, {{}}
torch.npu.set_per_process_memory_fraction(400 * MIB / torch.npu.mem_get_info()[1])

def ask(name, mib):
    # resize_ allocates with the GIL held
    try:
        torch.empty(0, dtype=torch.uint8, device="npu").untyped_storage().resize_(mib * MIB)
        results[name] = "got it"
    except torch.OutOfMemoryError:
        results[name] = "out of memory"

side = torch.npu.Stream()
torch.empty(1, device="npu")
with held({stream}) as let_go:
    x = torch.empty(300 * MIB, dtype=torch.uint8, device="npu")
    if {recorded}:
        x.record_stream(side)
    del x
    threads = [threading.Thread(target=ask, args=a) for a in (("A", {a}), ("B", {b}))]
    for thread in threads:
        thread.start()
        thread.join(0.5)   # is at the device
    let_go()
    for thread in threads:
        thread.join()
print(results)
"""


@pytest.mark.parametrize("stream, recorded, a, b, wanted", [
    ("side", True, 150, 140, {"A": "got it", "B": "got it"}),   # both need the block that waits for the other stream
    ("torch.npu.current_stream()", False, 390, 500, {"A": "got it", "B": "out of memory"}),   # A gives back first
])
def test_two_threads_out_of_memory(python, stream, recorded, a, b, wanted):
    """The second neither gives up before the first is done nor keeps it from getting on."""
    folder = str(pathlib.Path(__file__).resolve().parents[1])
    done = python(OUT_OF_MEMORY_IN_TWO_THREADS.format(folder=folder, stream=stream, recorded=recorded, a=a, b=b))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(wanted)


def test_processes_of_a_device():
    kept = npu(20 * MIB)
    device, mine, everyone = torch.npu.list_gpu_processes().splitlines()
    megabytes = torch.npu.memory_reserved() / MIB
    assert device == f"NPU:{torch.npu.current_device()}"
    assert mine.split() == ["process", str(os.getpid()), "uses", f"{megabytes:.3f}", "MB", "NPU", "memory"]
    assert everyone.startswith("all processes") and float(everyone.split()[3]) >= megabytes >= kept.nbytes / MIB
