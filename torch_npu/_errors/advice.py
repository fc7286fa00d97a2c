"""What lies behind the codes of CANN's errors: likely causes, and what to do next. The one table of both.

docs/troubleshooting.md's tables and ``python -m torch_npu.doctor explain`` are made of it, and run_check() takes its remedies
here. What a code means is in csrc/core/status_texts.def. Nothing else is imported, so that the generator can read this file.
"""

from typing import Dict, NamedTuple, Optional, Tuple


class Advice(NamedTuple):
    """One row: the codes it is for, likely causes, what to do next (Markdown, one line each)."""

    codes: Tuple[int, ...]
    causes: str
    next: str


# What programs meet.
COMMON: Tuple[Advice, ...] = (
    Advice(
        (100000, 107000),
        "a size, flag or pointer that CANN does not take; seldom the program's own",
        "the text names the call; if it is one of this project's, report it",
    ),
    Advice((100001,), "another library in this process has ended CANN (`aclFinalize`)", "let it not while torch_npu is in use"),
    Advice((100002,), "another library in this process was first", "nothing: it is harmless, and the adapter goes on"),
    Advice(
        (100039, 207000),
        "this CANN, this chip, or softcann lacks it",
        "the text says which feature: do without it, or update CANN",
    ),
    Advice(
        (107001,),
        "an index beyond the devices, or one that `ASCEND_RT_VISIBLE_DEVICES` hides",
        "check `ASCEND_RT_VISIBLE_DEVICES` and the device's index against `torch.npu.device_count()`; on softcann "
        "`SOFTCANN_DEVICE_COUNT`",
    ),
    Advice(
        (107002,),
        "a C++ thread of your own that calls CANN before it set the device",
        "call torch.npu.set_device() in the thread that uses the device",
    ),
    Advice((107003,), "a stream was used with another device than its own", "`with torch.npu.stream(s)` switches both"),
    Advice(
        (107017,),
        "an event or stream was used after its end, or its address is none",
        "keep the object as long as it is used; of an address from other code, ask that code",
    ),
    Advice((107020,), "as 507046", "as 507046"),
    Advice((107022,), "`torch.npu.stop_device`, by another thread perhaps", "[recovery.md](recovery.md) says how to go on"),
    Advice(
        (107024,),
        "a captured stream waits for an event from outside the capture",
        "record the event inside, or synchronize before the capture begins ([graphs.md](graphs.md))",
    ),
    Advice(
        (107025,),
        "a second stream of the capture does work for which the first never waits",
        "let the stream on which it began wait for the others before it ends",
    ),
    Advice(
        (107027, 107028, 107030),
        "something in the block waits for the device: `.item()`, a print, a copy to the host",
        "take it out of the block: [graphs.md](graphs.md) lists what cannot be captured",
    ),
    Advice(
        (107029, 107036, 107038),
        "a capture ends where none began",
        "end it on the stream, and unless it is relaxed on the thread, on which it began",
    ),
    Advice((107031,), "the capture began on the default stream", "`torch.npu.graph()`, or a stream of your own"),
    Advice((107032,), "two captures share a stream or event", "give each its own"),
    Advice(
        (161001, 161002),
        "a dtype, a shape or a dimension that the operator does not take; on softcann also data without a result, "
        "such as integers divided by zero, of which an NPU would make some number",
        "the text says which argument and why; work goes on",
    ),
    Advice(
        (200000,), "host memory ran out: workers of data loaders, pinned memory", "fewer of both; `free -g` shows what is left"
    ),
    Advice(
        (207001,),
        "tensors, cached memory, or another process hold the device's memory; it is an `OutOfMemoryError`",
        "free device memory, or look with `npu-smi info` which process holds it; `torch.npu.memory_summary()` has the "
        "allocator's "
        "figures; on softcann `SOFTCANN_MEMORY=8G` sets the capacity",
    ),
    Advice(
        (207004,),
        "the driver, or `ASCEND_RT_VISIBLE_DEVICES`, shows no device",
        "run `npu-smi info`: if it lists none, install the driver; then check `ASCEND_RT_VISIBLE_DEVICES`",
    ),
    Advice((207018,), "too many streams, events or processes on one device", "fewer; `npu-smi info` lists the processes"),
    Advice(
        (200002, 200005),
        "as 107001 and 107017: no such device; a handle whose object has ended",
        "check the index against `torch.npu.device_count()`; keep the object as long as it is used",
    ),
    Advice((361001,), "the runtime failed inside an operator", "the code of the runtime is in the text: look that one up"),
    Advice(
        (507000,),
        "a fault in the runtime or driver",
        "the driver's log (`~/ascend/log`, `dmesg`); on softcann the text has the cause",
    ),
    Advice(
        (507011,),
        "an earlier operator of this stream failed",
        "the first error is the cause; run again with `ASCEND_LAUNCH_BLOCKING=1`",
    ),
    Advice((507014, 507034), "a kernel that hangs, or more work than the limit allows", "`torch.npu.set_op_timeout_ms`"),
    Advice(
        (507015, 507018, 507035),
        "an index out of range (embedding, gather, the classes of a loss), or memory that was freed too early",
        "`ASCEND_LAUNCH_BLOCKING=1` names the operator and its line; look at its indices' smallest and largest value; "
        "[recovery.md](recovery.md) says how to go on",
    ),
    Advice(
        (507046,),
        "a kernel or collective hangs, or the limit is short",
        "the device did not answer in time: what does the stream wait for? `npu-smi info` shows whether it hangs; else "
        "raise `ACL_DEVICE_SYNC_TIMEOUT_MS`",
    ),
    Advice((507903,), "an earlier call made the capture fail", "the text has that call"),
    Advice(
        (561003,),
        "CANN has no kernel for these dtypes or shapes",
        "cast, or send the operator to the CPU with `TORCH_NPU_FALLBACK_OPS`",
    ),
)

# What comes from a driver, a device or another library more often than from a program.
OTHERS: Tuple[Advice, ...] = (
    Advice(
        (*range(100003, 100020), 100038),
        "files, models and dumps of CANN's own interfaces, which this project does not call",
        "the text names the file or model",
    ),
    Advice(
        tuple(range(100020, 100032)),
        "an operator of this type, with these formats and attributes, is not in this CANN",
        "update it, or send the operator to the CPU",
    ),
    Advice(
        (*range(100032, 100038), *range(100040, 100046), *range(107011, 107016)),
        "another library in this process uses queues, callbacks, groups, profiling and dumps, too",
        "these begin and end in pairs: look for who ends what it has not begun",
    ),
    Advice(
        (*range(107004, 107011), 107016, 107018, 107021, 107033, 107034, 107039, *range(107042, 107046),
         207002, *range(207013, 207016), 207019, 207021),
        "a call that the adapter does not make",
        "report it, with the text",
    ),
    Advice(
        (107026, 107037, 107040, 107041, 107046),
        "what is in the block cannot be captured or updated, or the graph is still running",
        "[graphs.md](graphs.md)",
    ),
    Advice(
        (107023, 107035, 507023),
        "somebody has aborted the device's work, `torch.npu.stop_device` for one",
        "go on after `torch.npu.restart_device`",
    ),
    Advice(
        (*range(207005, 207013), 507002, 507003, 507032, 507037),
        "streams, events, graphs or processes on the device are too many",
        "fewer; `npu-smi info` lists the processes",
    ),
    Advice(
        (207003, 207016, 207017),
        "the arithmetic overflowed",
        "scale the loss, or look at `torch.npu.utils.get_npu_overflow_flag`; `TORCH_NPU_CHECK_NAN_INF=1` names the operator",
    ),
    Advice((107019, 207020, 507012, 507047, 507048), "as 507046", "what does it wait for?"),
    Advice(
        (507016, 507036, 507042, 507043, 507044, 507045, 507049, 507050),
        "as 507015: mostly an index or address out of range",
        "`ASCEND_LAUNCH_BLOCKING=1` names the operator",
    ),
    Advice(
        (507017, 507057, 507904, 507915, 507916),
        "another rank of a collective did not come, died or called something else",
        "the text and the lines about the process group say which; [distributed.md](distributed.md)",
    ),
    Advice(
        (507001, 507010, 507013, 507033, 507053, 507054, 507055, 507056, 507914),
        "the device or its link is damaged, or was reset",
        "`npu-smi info -t health`, then restart the process",
    ),
    Advice(
        (*range(507004, 507010), *range(507019, 507023), *range(507024, 507032), *range(507038, 507042), 507051, 507052,
         *range(507899, 507903)),
        "driver, firmware and CANN of different releases, or a fault in one of them",
        "the driver's log has the cause (`dmesg`, `~/ascend/log`)",
    ),
    Advice(
        (*range(507905, 507910), 507912, 507913),
        "a snapshot of the device's state is taken or restored",
        "the text names the step",
    ),
    Advice(
        (*range(145000, 145004), *range(145006, 145010), *range(545001, 545010), 148053),
        "a model (.om) that is damaged, of another CANN, loaded twice or unloaded already; the adapter calls none",
        "the text names the model: convert it again with this CANN's `atc`",
    ),
    Advice(
        (*range(145011, 145023), 345104),
        "what the model is called with is not what it was converted for",
        "compare shapes, data types, formats and preprocessing with those of the conversion",
    ),
    Advice(
        (148046, 148047, 200007, 500005),
        "two profilers at once, or one that this CANN lacks",
        "one at a time: `torch_npu.profiler`, msprof, or aclprof's own calls",
    ),
    Advice((148048,), "the configuration that `aclInit` was given", "correct it; the text names the entry"),
    Advice(
        (148049, *range(561107, 561114), *range(561116, 561120)),
        "CANN's kernels are missing, damaged, or of another chip or release",
        "install the kernels' package of this CANN for this chip; check `ASCEND_OPP_PATH`",
    ),
    Advice(
        (148050, 200001, 200006),
        "this CANN, or this chip, lacks it",
        "the text says what: do without it, or update CANN",
    ),
    Advice(
        (148051, 200004),
        "what is destroyed is still in use, or belongs to something else",
        "end in the opposite order of the beginning; a stream, an event and memory are of one device",
    ),
    Advice((148052,), "progressive or lossless JPEG, or one with unusual sampling", "decode it on the host"),
    Advice((200003,), "memory that the program laid out itself", "align it to 64 bytes"),
    Advice(
        (245000, 245001, 245002, 300000),
        "memory or storage ran out below a model",
        "as 207001: free device memory; `npu-smi info` shows who holds it",
    ),
    Advice((345102, 545602), "the device is failing, and its work is moved", "`npu-smi info -t health`"),
    Advice((345103,), "a Python or C++ function that a graph calls", "its own error stands before this one in the log"),
    Advice(
        (*range(500000, 500005), 545000, 561000),
        "a fault below the call; on softcann, with 561000, a collective inside an operator",
        "the text has the cause; else the driver's log (`dmesg`, `~/ascend/log`)",
    ),
    Advice((545601,), "as 507046", "what does it wait for?"),
    Advice(
        (561001, 561002, *range(561101, 561107), 561114, 561115),
        "shapes or attributes that this operator of CANN cannot work with, or a fault in it",
        "smaller or simpler shapes show which; send the operator to the CPU with `TORCH_NPU_FALLBACK_OPS`, and report it",
    ),
    Advice((507910, 507911), "the same host memory is registered twice, or was not registered", "look at who pins it"),
)

# HCCL's results, by name: (number, causes, next).
HCCL: Dict[str, Tuple[int, str, str]] = {
    "HCCL_E_PARA": (
        1,
        "ranks called a collective with different sizes, dtypes or roots, or one with a size it does not take",
        "the message names the collective; `TORCH_HCCL_TRACE_BUFFER_SIZE` keeps what each rank called",
    ),
    "HCCL_E_PTR": (2, "a null pointer reached HCCL", "report it, with the text"),
    "HCCL_E_MEMORY": (3, "memory for buffers could not be had", "smaller `HCCL_BUFFSIZE`, fewer groups"),
    "HCCL_E_INTERNAL": (4, "a fault inside HCCL, often after another rank's failure", "look at the first rank that failed"),
    "HCCL_E_NOT_SUPPORT": (5, "a dtype or reduction that this HCCL lacks", "cast, or use another reduction"),
    "HCCL_E_NOT_FOUND": (
        6,
        "something that a configuration names is not there",
        "rank table, interfaces of `HCCL_SOCKET_IFNAME`",
    ),
    "HCCL_E_UNAVAIL": (7, "a resource is used by another process", "wait for the earlier job's processes to end"),
    "HCCL_E_SYSCALL": (8, "a call of the system failed", "limits of open files, `/dev/shm`, the system's log"),
    "HCCL_E_TIMEOUT": (
        9,
        "another rank did not come, is far behind, or died",
        "the report of the watchdog names the ranks that are "
        "missing; raise the group's `timeout` or `HCCL_CONNECT_TIMEOUT` only where they are merely slow",
    ),
    "HCCL_E_OPEN_FILE_FAILURE": (10, "a configuration file cannot be read", "its path and rights"),
    "HCCL_E_TCP_CONNECT": (
        11,
        "a rank cannot be reached: firewall, wrong interface, dead process",
        "`HCCL_IF_IP`, `MASTER_ADDR`",
    ),
    "HCCL_E_ROCE_CONNECT": (12, "a link between devices could not be made", "addresses and state of the devices' network ports"),
    "HCCL_E_TCP_TRANSFER": (13, "a connection broke: the other process died", "the other ranks' logs"),
    "HCCL_E_ROCE_TRANSFER": (14, "a link between devices broke", "state of the devices' network ports; the other ranks' logs"),
    "HCCL_E_RUNTIME": (15, "the runtime failed below HCCL", "its code is in the text: look that one up"),
    "HCCL_E_DRV": (16, "the driver failed below HCCL", "`dmesg`; driver, firmware and CANN are to be of one release"),
    "HCCL_E_PROFILING": (17, "profiling failed below HCCL", "run without a profile"),
    "HCCL_E_CCE": (18, "the task library failed below HCCL", "report it, with the text"),
    "HCCL_E_NETWORK": (19, "the network failed", "interfaces, addresses, firewall"),
    "HCCL_E_AGAIN": (20, "nothing has come yet", "nothing: it is tried again"),
    "HCCL_E_REMOTE": (21, "another rank failed", "the first rank that failed has the cause"),
    "HCCL_E_SUSPENDING": (22, "the communicator is stopped, by `torch.npu.stop_device` for one", "[recovery.md](recovery.md)"),
    "HCCL_E_OPRETRY_FAIL": (
        23,
        "a collective could not be repeated after a link broke",
        "restart the job from its last checkpoint",
    ),
    "HCCL_E_OOM": (24, "the device's memory ran out", "smaller `HCCL_BUFFSIZE`, or as 207001"),
}

# Who speaks in CANN's own texts (EI0006: ...), by their first two letters.
SPEAKERS: Dict[str, str] = {
    "EE": "CANN's runtime",
    "EH": "AscendCL",
    "EI": "HCCL, collectives",
    "EJ": "HCCL's network",
    "EK": "the profiler",
    "EL": "the driver",
    "EZ": "the library of operators (aclnn)",
}


def of(code: int) -> Optional[Advice]:
    """The row of a code; None where there is none."""
    return next((advice for advice in (*COMMON, *OTHERS) if code in advice.codes), None)
