"""Devices: count, current device, contexts, properties, and errors for devices that do not exist."""

import ctypes
import os
import threading

import pytest
import torch

two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")


def test_device_is_registered():
    assert torch.npu.is_available()
    assert torch.device("npu:0").type == "npu"
    assert torch.get_device_module("npu") is torch.npu
    assert torch._C._get_privateuse1_backend_name() == "npu"


def test_tensor_methods():
    x = torch.arange(3.0)
    y = x.npu()
    assert y.is_npu and not x.is_npu
    assert y.device == torch.device("npu:0")
    assert y.cpu().tolist() == [0.0, 1.0, 2.0]
    assert torch.nn.Linear(2, 2).npu().weight.is_npu


@two_devices
def test_device_context_restores():
    assert torch.npu.current_device() == 0
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
        with torch.npu.device(None):
            assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    with pytest.raises(KeyError):
        with torch.npu.device("npu:1"):
            raise KeyError
    assert torch.npu.current_device() == 0


@two_devices
def test_device_of():
    x = torch.ones(1, device="npu:1")
    with torch.npu.device_of(x):
        assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.ones(1)):
        assert torch.npu.current_device() == 0


@two_devices
def test_set_device():
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1
    torch.npu.set_device(-1)
    assert torch.npu.current_device() == 1
    torch.npu.set_device(torch.device("npu", 0))
    assert torch.npu.current_device() == 0


def test_set_device_is_canns_too():
    """For libraries that call CANN themselves, as Mooncake's transport does."""
    found = []

    def use(cann):
        device = ctypes.c_int32(-1)
        found.append(cann.aclrtGetDevice(ctypes.byref(device)))
        torch.npu.set_device(0)
        found.append((cann.aclrtGetDevice(ctypes.byref(device)), device.value))

    torch.ones(1, device="npu")   # opens the library, which the other thread finds
    thread = threading.Thread(target=use, args=(ctypes.CDLL("libascendcl.so"),))
    thread.start()
    thread.join()
    assert found == [107002, (0, 0)]


@pytest.mark.parametrize("index", [2, 15, 100])
def test_device_that_does_not_exist(index):
    if index < torch.npu.device_count():
        pytest.skip("this machine has it")
    with pytest.raises(RuntimeError, match=f"npu:{index} does not exist"):
        torch.ones(1, device=f"npu:{index}")
    with pytest.raises(RuntimeError, match=f"npu:{index} does not exist"):
        torch.npu.set_device(index)
    with pytest.raises(RuntimeError, match=f"npu:{index} does not exist"):
        torch.npu.synchronize(index)
    assert torch.ones(2, device="npu").sum().item() == 2.0


@pytest.mark.parametrize("index", [256, 2**70])   # of which 8 bits are 0
def test_an_index_that_no_device_can_have(index):
    for call in (torch.npu.Stream, torch.npu.set_device, torch.npu.synchronize, torch.npu.memory_allocated):
        with pytest.raises(RuntimeError, match=f"npu:{index} does not exist"):
            call(index)


def test_wrong_kind_of_device():
    with pytest.raises(ValueError, match="Expected a npu device, but got: cpu"):
        torch.npu.set_device("cpu")
    with pytest.raises(TypeError):
        torch.npu.set_device(1.5)


def test_a_device_may_be_given_as_its_context_manager():
    assert torch.npu.get_device_name(torch.npu.device("npu:0")) == torch.npu.get_device_name(0)
    assert torch.npu.memory_allocated(torch.npu.device(0)) == torch.npu.memory_allocated(0)
    assert torch.npu._utils._get_device_index(torch.npu.device(-1), optional=True) == torch.npu.current_device()


def test_properties():
    properties = torch.npu.get_device_properties(0)
    assert properties.name.startswith("Ascend")
    assert properties.name == torch.npu.get_device_name()
    assert properties.total_memory == torch.npu.mem_get_info(0)[1] > 0
    assert (properties.major, properties.minor) == torch.npu._architecture()
    assert properties.name in repr(properties) and repr(properties).startswith("_NPUDeviceProperties(")
    assert properties.multi_processor_count == properties.vector_core_num
    assert properties.warp_size is None and properties.is_integrated is None
    assert properties == torch.npu.get_device_properties("npu:0") == torch.npu.get_device_properties(torch.device("npu", 0))
    with pytest.raises(RuntimeError):
        torch.npu.get_device_properties(99)


@two_devices
def test_peer_access():
    assert torch.npu.can_device_access_peer(0, 1) in (True, False)
    with pytest.raises(AssertionError):
        torch.npu.can_device_access_peer(0, 99)


def test_figures_that_are_not_known_print_as_na():
    value = torch.npu.temperature()
    assert value != value and f"{value}" == "NA"
    assert torch.npu.device_memory_used() >= 0


def test_what_the_driver_tells():
    kept = torch.ones(20 * 2**20, dtype=torch.uint8, device="npu")
    title, *processes = torch.npu.list_npu_processes().splitlines()
    assert title == f"NPU:{torch.npu.current_device()}"
    mine, = (line.split() for line in processes if line.split()[1] == str(os.getpid()))
    assert float(mine[3]) >= kept.nbytes / 2**20
    assert torch.npu.device_memory_used() >= kept.nbytes
    assert 0 <= torch.npu.utilization() <= 100


def test_the_driver_counts_devices_that_are_hidden(python):
    code = """
import os, torch, torch_npu
kept = torch.ones(20 * 2**20, dtype=torch.uint8, device="npu:0")
from torch_npu.npu import _driver
driver, card, chip = _driver.find(0)
assert (card, chip) == (1, 0), (card, chip)
assert str(os.getpid()) in torch.npu.list_npu_processes(0)
"""
    done = python(code, TORCH_NPU_RUNTIME="softcann", SOFTCANN_DEVICE_COUNT=2, ASCEND_RT_VISIBLE_DEVICES="1")
    assert done.returncode == 0, done.stderr


def test_without_the_drivers_library_it_is_told(monkeypatch):
    from torch_npu.npu import _driver

    monkeypatch.setattr(_driver, "_library", lambda: None)
    with pytest.raises(NotImplementedError, match="libdcmi.so"):
        torch.npu.list_npu_processes()
    assert torch.npu.device_memory_used() >= 0 and f"{torch.npu.power_draw()}" == "NA"


def test_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.npu.device_count()
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()


@two_devices
def test_accelerator_device_index():
    torch.accelerator.set_device_index(1)
    assert torch.npu.current_device() == 1
    assert torch.accelerator.current_stream().device_index == 1
    torch.accelerator.set_device_index(0)


def test_visible_devices(python):
    run = python("import torch; print(torch.npu.device_count())", SOFTCANN_DEVICE_COUNT=4, ASCEND_RT_VISIBLE_DEVICES="2,3")
    assert run.stdout.strip() == "2", run.stderr


def test_more_devices_than_a_process_can_use(python):
    code = """
import torch, torch_npu
try:
    torch.ones(1, device="npu")
except RuntimeError as error:
    print(error)
print(torch.npu.device_count())
"""
    run = python(code, TORCH_NPU_RUNTIME="softcann", SOFTCANN_DEVICE_COUNT=17)
    assert "sees 17 NPUs, and can use 16 at most: choose them with ASCEND_RT_VISIBLE_DEVICES" in run.stdout, run.stdout
    assert run.stdout.endswith("\n0\n") and "no NPU can be used: " in run.stderr, run.stderr
    run = python(code, TORCH_NPU_RUNTIME="softcann", SOFTCANN_DEVICE_COUNT=17, ASCEND_RT_VISIBLE_DEVICES="1,16")
    assert run.stdout == "2\n", run.stdout + run.stderr


def test_each_thread_has_its_own_current_device():
    import threading

    seen = []
    with torch.npu.device(torch.npu.device_count() - 1):
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]
