"""npu-smi on softcann: the layouts of Ascend's, which scripts and monitors read. What is not known is NA.

    npu-smi info | info -l | info -m | info watch | info -t TYPE -i NPU [-c CHIP]

Where a driver of real NPUs is loaded, its own npu-smi is run instead.
"""
import argparse
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from . import dcmi, library_path
from ._real import hand_over

__all__ = [
    "Device", "HEALTH", "Layout", "TYPES", "WATCHED", "WHOLE", "columns", "command", "device_rows", "layout_of", "main",
    "parse", "print_board", "print_common", "print_errors_of_memory", "print_health", "print_list", "print_map",
    "print_memory", "print_numbers", "print_pairs", "print_power", "print_process_memory", "print_table", "print_temperature",
    "print_topology", "print_usages", "process_name", "process_rows", "row", "rule", "run", "shown", "usage", "watch",
]

HEALTH = ("OK", "Warning", "Alarm", "Critical")
# Letters of `info watch -s`, their column, and what fills it.
WATCHED = (("p", "Pwr(W)", "power"), ("t", "Temp(C)", "temperature"), ("a", "AI Core(%)", "aicore"), ("i", "AI Cpu(%)", "aicpu"),
           ("c", "Ctrl Cpu(%)", "ctrlcpu"), ("m", "Memory(%)", "memory_percent"), ("b", "Memory BW(%)", "bandwidth"),
           ("n", "NPU Util(%)", "npu"))


class Layout(NamedTuple):
    """One chip family's tables: the two lines of headings with bars between the cells, and the widths within each cell."""

    first: str
    second: str
    left: Tuple[int, ...]       # columns of the leftmost cell, or cells
    figures: Tuple[int, int, int]
    process: str
    process_widths: Tuple[Tuple[int, ...], ...]
    has_hbm: bool = True
    has_chip: bool = True
    shows_physical_id: bool = False


_A = Layout("NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)",
            "Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        ",
            (6, 20), (12, 18, 21),
            "NPU     Chip              | Process id    | Process name             | Process memory(MB)      ",
            ((8, 18), (14,), (25,), (24,)))
_B = Layout("NPU     Name      | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) ",
            "Chip    Device    | Bus-Id          | AICore(%)    Memory-Usage(MB)                        ",
            (8, 10), (13, 18, 22),
            "NPU     Chip      | Process id      | Process name             | Process memory(MB)        ",
            ((8, 10), (16,), (25,), (26,)),
            has_hbm=False, shows_physical_id=True)
_C = _A._replace(second="Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        ",
                 shows_physical_id=True)
_D = Layout("NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) ",
            "       |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         ",
            (7, 17), (12, 18, 22),
            "NPU ID                    | Process id    | Process name             | Process memory(MB)       ",
            ((26,), (14,), (25,), (25,)),
            has_chip=False)


def layout_of(name: str) -> Layout:
    """By the name of the chip, such as 910B3."""
    for family, layout in (("310", _B), ("910_93", _C), ("950", _D)):
        if name.startswith(family):
            return layout
    return _A


class Device:
    """A chip and its figures, asked for as they are needed; None is a figure that nobody knows."""

    def __init__(self, driver: dcmi.Dcmi, card: int, chip: int):
        self.driver, self.card, self.chip = driver, card, chip
        self.info = driver.chip(card, chip)
        self.layout = layout_of(self.info.name)

    def rate(self, what: int) -> Optional[int]:
        return self.driver.utilization(self.card, self.chip, what)

    def figure(self, what: str) -> Any:
        return self._FIGURES[what](self)

    def memory(self) -> Tuple[int, int]:
        return self.driver.memory(self.card, self.chip)

    def memory_percent(self) -> int:
        used, total = self.memory()
        return round(used * 100 / total) if total else 0

    def health(self) -> str:
        code = self.driver.is_healthy(self.card, self.chip)
        return HEALTH[code] if code is not None and 0 <= code < len(HEALTH) else "UNKNOWN"

    def processes(self) -> List[Tuple[int, str, int]]:
        """Process ids, names, and the device memory of each in MiB."""
        return [(pid, process_name(pid), -(-held // 2**20)) for pid, held in self.driver.processes(self.card, self.chip)]

    _FIGURES: Dict[str, Callable[["Device"], Any]] = {
        "power": lambda self: self.driver.power(self.card, self.chip),
        "temperature": lambda self: self.driver.temperature(self.card, self.chip),
        "bus": lambda self: self.driver.bus(self.card, self.chip),
        "aicore": lambda self: self.rate(dcmi.AICORE),
        "vector": lambda self: self.rate(dcmi.VECTOR),
        "aicpu": lambda self: self.rate(dcmi.AICPU),
        "ctrlcpu": lambda self: self.rate(dcmi.CTRLCPU),
        "bandwidth": lambda self: self.rate(dcmi.HBM_BANDWIDTH),
        "ddr_bandwidth": lambda self: self.rate(dcmi.DDR_BANDWIDTH),
        "npu": lambda self: self.rate(dcmi.NPU),
        "memory_percent": memory_percent,
        "clock": lambda self: self.driver.core_clock(self.card, self.chip),
        "clock_limit": lambda self: self.driver.clock(self.card, self.chip, dcmi.AICORE_CLOCK_LIMIT),
        "hbm_clock": lambda self: self.driver.clock(self.card, self.chip, dcmi.HBM_CLOCK),
    }


def process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "NA"   # it ended meanwhile, or is another user's


def shown(value: Any) -> str:
    return "NA" if value is None else str(value)


def columns(widths: Sequence[int], *values: Any) -> str:
    return "".join(f"{shown(value):<{width}}" for width, value in zip(widths, values))


def usage(used: Any, total: Any) -> str:
    return f"{shown(used):<5}/ {total}"


def rule(like: str, mark: str) -> str:
    """A line of the table, with a plus under each bar of another one."""
    return "+" + "".join("+" if at == "|" else mark for at in like[1:-1]) + "+"


def row(*cells: str) -> str:
    return "| " + "| ".join(cells) + "|"


def device_rows(device: Device) -> Iterator[str]:
    layout, (used, total) = device.layout, device.memory()
    power, temperature = device.figure("power"), device.figure("temperature")
    main, hbm = (usage(0, 0), usage(used, total)) if layout.has_hbm else (usage(used, total), "")
    name = "Ascend910" if layout is _C else device.info.name
    bus_width = layout.first.split("|")[1 if layout.has_chip else 2]
    middle = len(bus_width) - 1
    if layout.has_chip:
        tops = [columns(layout.left, device.card, name)]
        logic = device.driver.logic_id(device.card, device.chip)
        second = [columns(layout.left, device.chip, device.driver.physical_id(logic) if layout.shows_physical_id else "")]
    else:
        tops = [columns(layout.left[:1], device.card), columns(layout.left[1:], name)]
        second = [columns(layout.left[:1], ""), columns(layout.left[1:], "")]
    yield row(*tops, f"{device.health():<{middle}}", columns(layout.figures, power, temperature, usage(0, 0)))
    busy = device.figure("aicore" if layout.has_chip else "npu")
    yield row(*second, f"{shown(device.figure('bus')):<{middle}}", columns(layout.figures, busy, main, hbm))


def process_rows(device: Device, inner: int) -> Iterator[str]:
    widths, processes = device.layout.process_widths, device.processes()
    for pid, name, held in processes:
        place = (device.card, device.chip) if device.layout.has_chip else (device.card,)
        yield row(columns(widths[0], *place), *(f"{value:<{width[0]}}" for value, width in zip((pid, name, held), widths[1:])))
    if not processes:
        yield f"| {f'No running processes found in NPU {device.card}':<{inner - 1}}|"


def print_table(driver: dcmi.Dcmi, devices: List[Device]) -> None:
    layout, version = devices[0].layout, driver.driver_version()
    top, head = row(layout.first), row(layout.process)
    inner = len(top) - 2
    lines = [rule("|" + "-" * inner + "|", "-"), f"| {f'npu-smi {version}':<33}{f'Version: {version}':<{inner - 34}}|",
             rule(top, "-"), top, row(layout.second)]
    for device in devices:
        lines += [rule(top, "="), *device_rows(device)]
    lines += [rule(top, "="), rule(top, "-"), head]
    for device in devices:
        lines += [rule(top, "="), *process_rows(device, inner)]
    lines.append(rule(top, "="))
    print("\n".join(lines))


def print_pairs(pairs: Sequence[Tuple[str, Any]], width: int = 30) -> None:
    for key, value in pairs:
        print(f"\t{key:<{width}} : {shown(value)}")


def print_list(driver: dcmi.Dcmi) -> None:
    cards = driver.cards()
    print_pairs([("Total Count", len(cards))])
    for card in cards:
        print()
        print_pairs([("NPU ID", card), ("Chip Count", driver.chips_of(card))])


def print_map(devices: List[Device]) -> None:
    if devices[0].layout.has_chip:
        print("\t" + columns([31] * 4, "NPU ID", "Chip ID", "Chip Logic ID", "Chip Name").rstrip())
    else:
        print("\t" + columns([31] * 5, "NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name").rstrip())
    for device in devices:
        logic, name = device.driver.logic_id(device.card, device.chip), f"{device.info.type} {device.info.name}"
        if device.layout.has_chip:
            values: Sequence[Any] = (device.card, device.chip, logic, name)
        else:
            values = (device.card, None, device.chip, device.driver.physical_id(logic), name)
        print("\t" + columns([31] * 5, *values).rstrip())


def _counts(device: Device) -> List[Tuple[str, Any]]:
    return [("NPU ID", device.card)] + ([("Chip Count", device.driver.chips_of(device.card))] if device.layout.has_chip else [])


def _chip(device: Device) -> List[Tuple[str, Any]]:
    return [("Chip ID", device.chip)] if device.layout.has_chip else []


def _by_kind(device: Device) -> Tuple[Any, Any, Any, Any]:
    """Capacity and percent used, of DDR and of HBM; a chip has the one or the other."""
    total, percent = device.memory()[1], device.memory_percent()
    return (None, None, total, percent) if device.layout.has_hbm else (total, percent, None, None)


def print_usages(device: Device) -> None:
    ddr, ddr_percent, hbm, hbm_percent = _by_kind(device)
    pairs = [
        ("DDR Capacity(MB)", ddr), ("DDR Usage Rate(%)", ddr_percent), ("DDR Hugepages Total(page)", 0),
        ("DDR Hugepages Usage Rate(%)", 0), ("HBM Capacity(MB)", hbm), ("HBM Usage Rate(%)", hbm_percent),
        ("Aicore Usage Rate(%)", device.figure("aicore")), ("Aivector Usage Rate(%)", device.figure("vector")),
        ("Aicpu Usage Rate(%)", device.figure("aicpu")), ("Ctrlcpu Usage Rate(%)", device.figure("ctrlcpu")),
        ("DDR Bandwidth Usage Rate(%)", device.figure("ddr_bandwidth")),
        ("HBM Bandwidth Usage Rate(%)", device.figure("bandwidth")),
        ("NPU Utilization(%)", device.figure("npu"))]
    print_pairs(_counts(device) + pairs + _chip(device))


def print_common(device: Device) -> None:
    _, ddr_percent, _, hbm_percent = _by_kind(device)
    print_pairs([
        *_counts(device), *_chip(device), ("Memory Usage Rate(%)", ddr_percent), ("HBM Usage Rate(%)", hbm_percent),
        ("Aicore Usage Rate(%)", device.figure("aicore")), ("Aicore Freq(MHZ)", device.figure("clock_limit")),
        ("Aicore curFreq(MHZ)", device.figure("clock")), ("Aicore Count", device.info.cores),
        ("Temperature(C)", device.figure("temperature")), ("NPU Real-time Power(W)", device.figure("power"))])


def print_memory(device: Device) -> None:
    ddr, _, hbm, _ = _by_kind(device)
    print_pairs([
        ("NPU ID", device.card), ("DDR Capacity(MB)", ddr), ("DDR Clock Speed(MHz)", None), ("HBM Capacity(MB)", hbm),
        ("HBM Clock Speed(MHz)", device.figure("hbm_clock")), ("HBM Temperature(C)", None),
        ("HBM Manufacturer ID", None), *_chip(device)])


def print_board(device: Device, of_chip: bool) -> None:
    version = device.driver.driver_version()
    chip = [("Chip Name", device.info.name), ("Chip Version", device.info.version)]
    bus = ("PCIe Bus Info", device.figure("bus"))
    if of_chip:
        missing = ("Board ID", "PCB ID", "BOM ID", "VDie ID", "NDie ID", "Chip Position ID")
        print_pairs([("NPU ID", device.card), *_chip(device), ("Chip Type", device.info.type), *chip,
                     *((key, None) for key in missing), bus, ("Firmware Version", None)])
        return
    unknown = ("Slot ID", "Class ID", "PCI Vendor ID", "PCI Device ID", "Subsystem Vendor ID", "Subsystem Device ID")
    print_pairs([
        ("NPU ID", device.card), ("Product Name", f"{device.info.type}{device.info.name}"), ("NPU Name", device.info.name), *chip,
        ("Model", None), ("Manufacturer", "softcann"), ("Serial Number", None), ("Software Version", version),
        ("Firmware Version", None), ("Compatibility", None), ("Board ID", None), ("PCB ID", None), ("BOM ID", None), bus,
        *((key, None) for key in unknown), ("Chip Count", device.driver.chips_of(device.card))])


def print_health(device: Device) -> None:
    print_pairs([("NPU ID", device.card), *_chip(device), ("Health", device.health()), ("Error Code", None),
                 ("Error Information", None)])


def print_process_memory(device: Device) -> None:
    print_pairs([("NPU ID", device.card), *_chip(device)])
    for pid, name, held in device.processes():
        print(f"\tProcess id:{pid}  Process name:{name}        Process memory(MB):{held}")
    if not device.processes():
        print("\tNo process in device.")


def print_temperature(device: Device) -> None:
    print_pairs([*_counts(device), ("Temperature(C)", device.figure("temperature")), *_chip(device)])


def print_power(device: Device) -> None:
    print_pairs([*_counts(device), ("NPU Real-time Power(W)", device.figure("power")), *_chip(device)])


def print_errors_of_memory(device: Device) -> None:
    """NA: software memory has no error correction that counts."""
    counts = [f"HBM {bits} Bit {what}" for what in ("Error Count", "Aggregate Total Err Cnt", "Isolated Pages Count",
                                                    "Next-Isolated Pages Count") for bits in ("Single", "Double")]
    print_pairs([("NPU ID", device.card), *_chip(device), *((key, None) for key in counts)], width=40)


def print_numbers(devices: List[Device], physical: Optional[int]) -> None:
    """Which NPU and chip a physical number is (phyid-remap)."""
    for device in devices:
        logic = device.driver.logic_id(device.card, device.chip)
        if physical == device.driver.physical_id(logic):
            return print_pairs([("Chip Physical ID", physical), ("Chip Logic ID", logic), ("NPU ID", device.card),
                                ("Chip ID", device.chip)])
    _fail(f"no chip has the physical number {physical}; they have "
          + ", ".join(str(device.driver.physical_id(device.driver.logic_id(device.card, device.chip))) for device in devices))


def print_topology(devices: List[Device]) -> None:
    """All pairs are NA: software devices have no links, they share the host's memory."""
    names = [f"NPU{device.driver.logic_id(device.card, device.chip)}" for device in devices]
    print("\t" + columns([11] * (len(names) + 2), "", *names, "CPU Affinity").rstrip())
    for index, device in enumerate(devices):
        links = ["X" if other == index else "NA" for other in range(len(devices))]
        affinity = device.driver.processors(device.card, device.chip)
        print("\t" + columns([11] * (len(names) + 2), names[index], *links, affinity).rstrip())
    print("\nLegend:\n\n  X    = Self\n  NA   = Unknown relationship.")


TYPES: Dict[str, Callable[[Device], None]] = {
    "usages": print_usages, "common": print_common, "memory": print_memory, "health": print_health,
    "proc-mem": print_process_memory, "temp": print_temperature, "power": print_power, "ecc": print_errors_of_memory,
    "board": lambda device: print_board(device, of_chip=False)}


WHOLE = ("topo", "phyid-remap")  # these are not of one NPU


def watch(devices: List[Device], letters: str, delay: float) -> None:
    wanted = [entry for entry in WATCHED if entry[0] in letters]
    print(columns([12] * (len(wanted) + 2), "NpuID(Idx)", "ChipId(Idx)", *(heading for _, heading, _ in wanted)).rstrip())
    while True:
        for device in devices:
            values = [device.figure(what) for _, _, what in wanted]
            print(columns([12] * (len(wanted) + 2), device.card, device.chip, *values).rstrip(), flush=True)
        time.sleep(delay)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text}: seconds from 0 to 86400 are expected")
    return value


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="npu-smi", usage="npu-smi <Command|-h|-v> [Options...]",
        description="Shows the NPUs of softcann, the software CANN, and the processes that use them.",
        epilog="set, clear and upgrade are for hardware: there is nothing here to set.")
    parser.add_argument("-v", "--version", action="store_true", help="the version")
    info = parser.add_subparsers(dest="command", metavar="info", help="figures of the NPUs").add_parser("info")
    info.add_argument("watch", nargs="?", choices=["watch"], help="a line of figures a second, until interrupted")
    info.add_argument("-l", dest="list", action="store_true", help="the NPUs")
    info.add_argument("-m", dest="map", action="store_true", help="NPUs, chips and their numbers")
    info.add_argument("-t", dest="type", choices=[*TYPES, *WHOLE], help="figures of one kind, of one NPU (-i)")
    info.add_argument("-i", dest="npu", type=int, help="the NPU")
    info.add_argument("-c", dest="chip", type=int, help="the chip")
    info.add_argument("-p", dest="physical", type=int, help="the chip's physical number, for phyid-remap")
    info.add_argument("-d", dest="delay", type=_seconds, default=1, help="seconds between two lines of watch; 1")
    info.add_argument("-s", dest="letters", default="ptaicmb", help="what watch shows: p power, t temperature, a AI core, "
                      "i AI CPU, c control CPU, m memory, b its bandwidth, n NPU; ptaicmb")
    result = parser.parse_args(arguments)
    if result.command is None and not result.version:
        parser.error("a command is expected: info, or -v")
    if result.command == "info" and result.type not in (None, *WHOLE) and result.npu is None:
        info.error(f"-t {result.type} needs -i, the NPU")
    unknown = set(result.letters if result.command == "info" else "") - {letter for letter, _, _ in WATCHED}
    if unknown:
        info.error(f"-s {result.letters}: {', '.join(sorted(unknown))} is none of {''.join(letter for letter, _, _ in WATCHED)}")
    if result.command == "info" and result.type == "phyid-remap" and result.physical is None:
        info.error("-t phyid-remap needs -p, the chip's physical number")
    return result


def _fail(text: str) -> NoReturn:
    sys.exit(f"npu-smi: {text}")


def _find_devices(driver: dcmi.Dcmi, npu: Optional[int], chip: Optional[int]) -> List[Device]:
    places = [(card, index) for card in driver.cards() for index in range(driver.chips_of(card))]
    wanted = [place for place in places if npu in (None, place[0]) and chip in (None, place[1])]
    if not wanted:
        _fail(f"there is no {f'NPU {npu}' if chip is None else f'chip {chip} of NPU {npu}'}; there are "
              + ", ".join(f"{card}" if chip is None else f"{card} with chip {index}" for card, index in places))
    return [Device(driver, *place) for place in wanted]


def run(options: argparse.Namespace) -> None:
    try:
        driver = dcmi.Dcmi(os.path.join(library_path(), "libdcmi.so"))
    except dcmi.DcmiError as error:
        _fail(f"dcmi model initialized failed: {error}; `python -m softcann options` lists what may be set")
    if options.version:
        return print(f"npu-smi version: {driver.driver_version()}")
    whole = options.type in WHOLE or options.map
    devices = _find_devices(driver, None if whole else options.npu, None if whole else options.chip)
    if options.watch:
        watch(devices, options.letters, options.delay)
    elif options.list:
        print_list(driver)
    elif options.map:
        print_map(devices)
    elif options.type == "topo":
        print_topology(devices)
    elif options.type == "phyid-remap":
        print_numbers(devices, options.physical)
    elif options.type == "board":
        print_board(devices[0], of_chip=options.chip is not None)
    elif options.type:
        for device in devices:
            TYPES[options.type](device)
    else:
        print_table(driver, devices)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """`python -m softcann smi`, which is always softcann's."""
    try:
        run(parse(arguments))
    except (FileNotFoundError, OSError, dcmi.DcmiError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        pass


def command() -> None:
    """`npu-smi`."""
    hand_over("npu-smi")
    main()
