"""A client of libdcmi, the interface of Ascend's driver that monitors use; softcann has one of its own.

``Dcmi(path)`` loads a library. Queries give None where the driver says that it does not know such a figure, and raise
:class:`DcmiError` where they fail. A card is an NPU and a chip one of its devices.
"""
import ctypes
import os
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

__all__ = ["Chip", "Dcmi", "DcmiError", "find_library"]

DRIVER = ("/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64")
UNKNOWN_HERE = (-8013, -8255)   # not in a container, not by this chip
# Of get_device_utilization_rate and get_device_frequency.
AICORE, AICPU, CTRLCPU, DDR_BANDWIDTH, HBM, HBM_BANDWIDTH, VECTOR, NPU = 2, 3, 4, 5, 6, 10, 12, 13
AICORE_CLOCK, AICORE_CLOCK_LIMIT, HBM_CLOCK = 7, 9, 6
_NAME = ctypes.c_ubyte * 32
_MAX_CARDS, _MAX_PROCESSES = 64, 512


class DcmiError(RuntimeError):
    """A query that failed, with the driver's code in ``code``."""

    def __init__(self, function: str, code: int):
        super().__init__(f"{function} failed with code {code}")
        self.code = code


class _ChipInfo(ctypes.Structure):
    _fields_ = [("type", _NAME), ("name", _NAME), ("version", _NAME), ("cores", ctypes.c_uint), ("npu_name", _NAME)]


class _HbmInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ulonglong), ("clock", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                ("temperature", ctypes.c_int), ("bandwidth", ctypes.c_uint)]


class _PcieInfo(ctypes.Structure):
    _fields_ = [("vendor", ctypes.c_uint), ("subvendor", ctypes.c_uint), ("device_id", ctypes.c_uint),
                ("subdevice", ctypes.c_uint), ("domain", ctypes.c_int), ("bus", ctypes.c_uint),
                ("device", ctypes.c_uint), ("function", ctypes.c_uint),
                ("reserved", ctypes.c_ubyte * 32)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_int), ("bytes", ctypes.c_ulong)]


class Chip(NamedTuple):
    """What a chip is."""

    type: str      # "Ascend"
    name: str      # "910B3"
    version: str
    cores: int


def find_library(folders: Sequence[str] = ()) -> Optional[str]:
    """Path of the first libdcmi.so in the folders, or else where the driver puts it; None where there is none."""
    for folder in (*folders, *DRIVER):
        path = os.path.join(folder, "libdcmi.so")
        if os.path.exists(path):
            return path
    return None


def _text(field: Any) -> str:
    return bytes(field).split(b"\0", 1)[0].decode(errors="replace")


class Dcmi:
    """One library, initialized. OSError where it cannot be loaded, DcmiError where the driver does not answer."""

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)
        self._check("dcmi_init", self._library.dcmi_init())

    @staticmethod
    def _check(name: str, code: int) -> None:
        if code != 0:
            raise DcmiError(name, code)

    def _call(self, name: str, *arguments: Any) -> bool:
        """Calls; False where the driver has no such figure."""
        function = getattr(self._library, name, None)
        code = UNKNOWN_HERE[1] if function is None else function(*arguments)
        if code in UNKNOWN_HERE:
            return False
        self._check(name, code)
        return True

    def _figure(self, name: str, *arguments: Any) -> Optional[int]:
        value = ctypes.c_int()
        return value.value if self._call(name, *arguments, ctypes.byref(value)) else None

    def driver_version(self) -> str:
        text = ctypes.create_string_buffer(64)
        return text.value.decode() if self._call("dcmi_get_driver_version", text, ctypes.c_uint(64)) else "NA"

    def cards(self) -> List[int]:
        count, cards = ctypes.c_int(), (ctypes.c_int * _MAX_CARDS)()
        self._call("dcmi_get_card_list", ctypes.byref(count), cards, _MAX_CARDS)
        return list(cards[: count.value])

    def chips_of(self, card: int) -> int:
        return self._figure("dcmi_get_device_num_in_card", card) or 0

    def place_of(self, logic_id: int) -> Tuple[int, int]:
        """Card and chip of a device by the number that the runtime counts it with."""
        card, chip = ctypes.c_int(), ctypes.c_int()
        self._call("dcmi_get_card_id_device_id_from_logicid", ctypes.byref(card), ctypes.byref(chip), ctypes.c_uint(logic_id))
        return card.value, chip.value

    def place_of_physical(self, physical_id: int) -> Tuple[int, int]:
        """The same by the number of the chip in the machine."""
        card, chip = ctypes.c_int(), ctypes.c_int()
        self._call("dcmi_get_card_id_device_id_from_phyid", ctypes.byref(card), ctypes.byref(chip), ctypes.c_uint(physical_id))
        return card.value, chip.value

    def logic_id(self, card: int, chip: int) -> int:
        value = ctypes.c_int()
        self._call("dcmi_get_device_logic_id", ctypes.byref(value), card, chip)
        return value.value

    def physical_id(self, logic_id: int) -> Optional[int]:
        return self._figure("dcmi_get_device_phyid_from_logicid", ctypes.c_uint(logic_id))

    def chip(self, card: int, chip: int) -> Chip:
        info = _ChipInfo()
        self._call("dcmi_get_device_chip_info_v2", card, chip, ctypes.byref(info))
        return Chip(_text(info.type), _text(info.npu_name) or _text(info.name), _text(info.version), info.cores)

    def is_healthy(self, card: int, chip: int) -> Optional[int]:
        """0 well, 1 warning, 2 alarm, 3 critical."""
        return self._figure("dcmi_get_device_health", card, chip)

    def bus(self, card: int, chip: int) -> Optional[str]:
        info = _PcieInfo()
        if not self._call("dcmi_get_device_pcie_info_v2", card, chip, ctypes.byref(info)):
            return None
        return f"{info.domain:04X}:{info.bus:02X}:{info.device:02X}.{info.function:X}"

    def memory(self, card: int, chip: int) -> Tuple[int, int]:
        """Device memory in use and in all, in MiB."""
        info = _HbmInfo()
        self._call("dcmi_get_device_hbm_info", card, chip, ctypes.byref(info))
        return info.used, info.size

    def utilization(self, card: int, chip: int, what: int) -> Optional[int]:
        """Percent of the time lately."""
        return self._figure("dcmi_get_device_utilization_rate", card, chip, what)

    def temperature(self, card: int, chip: int) -> Optional[int]:
        """Degrees Celsius."""
        return self._figure("dcmi_get_device_temperature", card, chip)

    def power(self, card: int, chip: int) -> Optional[float]:
        """Watts."""
        tenths = self._figure("dcmi_get_device_power_info", card, chip)
        return None if tenths is None else tenths / 10

    def clock(self, card: int, chip: int, what: int) -> Optional[int]:
        """Megahertz."""
        return self._figure("dcmi_get_device_frequency", card, chip, what)

    def core_clock(self, card: int, chip: int) -> Optional[int]:
        """Megahertz of the AI cores now."""
        return self.clock(card, chip, AICORE_CLOCK)

    def processes(self, card: int, chip: int) -> List[Tuple[int, int]]:
        """Process ids, and the bytes of device memory that each holds."""
        count, found = ctypes.c_int(_MAX_PROCESSES), (_Process * _MAX_PROCESSES)()
        if not self._call("dcmi_get_device_resource_info", card, chip, found, ctypes.byref(count)):
            return []
        return [(process.pid, process.bytes) for process in found[: count.value]]

    def processors(self, card: int, chip: int) -> Optional[str]:
        """The host's processors that are near, as 0-15,32-47."""
        length, text = ctypes.c_int(1024), ctypes.create_string_buffer(1024)
        known = self._call("dcmi_get_affinity_cpu_info_by_device_id", card, chip, text, ctypes.byref(length))
        return text.value.decode() if known else None
