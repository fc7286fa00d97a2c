"""libascendcl and libhccl through ctypes, with numpy arrays for device memory."""
import ctypes
import os
import pathlib

import numpy as np

LIBRARIES = pathlib.Path(os.environ.get("TEST_LIBRARIES") or
                         pathlib.Path(__file__).resolve().parents[2] / "torch_npu" / "softcann" / "lib")
acl = ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
hccl = ctypes.CDLL(str(LIBRARIES / "libhccl.so"))
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
hccl.HcclGetErrorString.restype = ctypes.c_char_p
acl.aclrtMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
acl.aclrtMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
acl.aclrtFree.argtypes = [ctypes.c_void_p]
acl.aclrtSynchronizeStream.argtypes = [ctypes.c_void_p]
acl.aclrtCreateStream.argtypes = [ctypes.c_void_p]
acl.aclrtRecordEvent.argtypes = acl.aclrtStreamWaitEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
for name in ("Begin", "End"):
    getattr(acl, "aclmdlRICapture" + name).argtypes = [ctypes.c_void_p, ctypes.c_int if name == "Begin" else ctypes.c_void_p]
acl.aclmdlRIExecuteAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
acl.aclmdlRIDestroy.argtypes = [ctypes.c_void_p]

ROOT_INFO_BYTES = 4108
SUM, PROD, MAX, MIN = range(4)
TYPES = {"int8": 0, "int16": 1, "int32": 2, "float16": 3, "float32": 4, "int64": 5, "uint64": 6, "uint8": 7, "uint16": 8,
         "uint32": 9, "float64": 10, "bfloat16": 11, "int128": 12, "hif8": 14, "float8_e4m3": 15, "float8_e5m2": 16, "float8_e8m0": 17}
E_PARA, E_PTR, E_NOT_SUPPORT, E_UNAVAIL, E_TIMEOUT, E_REMOTE = 1, 2, 5, 7, 9, 21


class HcclError(Exception):
    """A call of the interface failed; `code` is what it returned, the text is aclGetRecentErrMsg's."""

    def __init__(self, code):
        super().__init__((acl.aclGetRecentErrMsg() or b"").decode())
        self.code = code


def check(code):
    if code != 0:
        raise HcclError(code)


def root_info():
    info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    check(hccl.HcclGetRootInfo(info))
    return info.raw


class Stream:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        check(acl.aclrtCreateStream(ctypes.byref(self.handle)))

    def synchronize(self):
        check(acl.aclrtSynchronizeStream(self.handle))

    def wait_for(self, other):
        """Comes after what `other` has got so far."""
        event = ctypes.c_void_p()
        check(acl.aclrtCreateEventExWithFlag(ctypes.byref(event), ctypes.c_uint32(1)))
        check(acl.aclrtRecordEvent(event, other.handle))
        check(acl.aclrtStreamWaitEvent(self.handle, event))
        check(acl.aclrtDestroyEvent(event))


class Graph:
    """What the block puts on `stream`, to be run again: `with Graph(stream) as graph`, then graph.replay()."""

    def __init__(self, stream):
        self.stream, self.handle = stream, ctypes.c_void_p()

    def __enter__(self):
        check(acl.aclmdlRICaptureBegin(self.stream.handle, 0))
        return self

    def __exit__(self, kind, error, trace):
        code = acl.aclmdlRICaptureEnd(self.stream.handle, ctypes.byref(self.handle))
        if kind is None:
            check(code)

    def replay(self, stream=None):
        check(acl.aclmdlRIExecuteAsync(self.handle, (stream or self.stream).handle))

    def destroy(self):
        check(acl.aclmdlRIDestroy(self.handle))


class Buffer:
    """Device memory with the bytes of a numpy array."""

    def __init__(self, array):
        array = np.ascontiguousarray(array)
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        self.address = ctypes.c_void_p()
        check(acl.aclrtMalloc(ctypes.byref(self.address), max(self.nbytes, 1), 0))
        self.write(array)

    def write(self, array):
        if self.nbytes:
            check(acl.aclrtMemcpy(self.address, self.nbytes, np.ascontiguousarray(array).ctypes.data, self.nbytes, 1))

    def read(self):
        array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            check(acl.aclrtMemcpy(array.ctypes.data, self.nbytes, self.address, self.nbytes, 2))
        return array

    def free(self):
        check(acl.aclrtFree(self.address))


class Config(ctypes.Structure):
    """HcclCommConfig as its initializer leaves it, apart from what is given."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint32), ("version", ctypes.c_uint32), ("reserved", ctypes.c_uint64),
                ("buffer_size", ctypes.c_uint32), ("deterministic", ctypes.c_uint32), ("name", ctypes.c_char * 128),
                ("udi", ctypes.c_char * 128), ("expansion", ctypes.c_uint32), ("traffic_class", ctypes.c_uint32),
                ("service_level", ctypes.c_uint32), ("world_rank", ctypes.c_uint32), ("job", ctypes.c_uint64),
                ("zero_copy", ctypes.c_uint8), ("timeout", ctypes.c_int32), ("algorithm", ctypes.c_char * 1600),
                ("retry", ctypes.c_char * 50), ("retry_parameters", ctypes.c_char * 128), ("buffer_name", ctypes.c_char * 128),
                ("qos", ctypes.c_uint32), ("window", ctypes.c_uint64)]

    def __init__(self, name="", timeout=-1):
        super().__init__(size=ctypes.sizeof(Config), magic=4042322160, version=10, name=name.encode(), timeout=timeout)


def u64(values):
    return (ctypes.c_uint64 * len(values))(*values)


class SendRecvItem(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("buf", ctypes.c_void_p), ("count", ctypes.c_uint64), ("type", ctypes.c_int),
                ("peer", ctypes.c_uint32)]


class Comm:
    """A communicator. Counts are in elements of `dtype`, a name of TYPES; buffers are Buffers or None."""

    def __init__(self, handle, rank, size):
        self.handle, self.rank, self.size = ctypes.c_void_p(handle), rank, size

    @classmethod
    def connect(cls, size, info, rank):
        handle = ctypes.c_void_p()
        check(hccl.HcclCommInitRootInfo(ctypes.c_uint32(size), info, ctypes.c_uint32(rank), ctypes.byref(handle)))
        return cls(handle.value, rank, size)

    @classmethod
    def connect_config(cls, size, info, rank, config):
        handle = ctypes.c_void_p()
        check(hccl.HcclCommInitRootInfoConfig(ctypes.c_uint32(size), info, ctypes.c_uint32(rank), ctypes.byref(config),
                                              ctypes.byref(handle)))
        return cls(handle.value, rank, size)

    def split(self, ranks, number, config=None):
        """The sub-communicator of `ranks`, of which this one has to be one."""
        handle, list_of_ranks = ctypes.c_void_p(), (ctypes.c_uint32 * len(ranks))(*ranks)
        check(hccl.HcclCreateSubCommConfig(ctypes.byref(self.handle), ctypes.c_uint32(len(ranks)), list_of_ranks,
                                           ctypes.c_uint64(number), ctypes.c_uint32(ranks.index(self.rank)),
                                           ctypes.byref(config or Config()), ctypes.byref(handle)))
        return Comm(handle.value, ranks.index(self.rank), len(ranks))

    def call(self, name, *arguments, stream=None):
        """Hccl<name>(arguments..., comm, stream): integers are 64 bits wide unless they are given as ctypes."""
        def convert(value):
            if isinstance(value, Buffer):
                return value.address
            return ctypes.c_uint64(value) if isinstance(value, int) else value
        check(getattr(hccl, "Hccl" + name)(*map(convert, arguments), self.handle, stream.handle if stream else None))

    def all_reduce(self, send, receive, count, dtype, op=SUM, stream=None):
        self.call("AllReduce", send, receive, count, ctypes.c_int(TYPES[dtype]), ctypes.c_int(op), stream=stream)

    def reduce(self, send, receive, count, dtype, op, root, stream=None):
        self.call("Reduce", send, receive, count, ctypes.c_int(TYPES[dtype]), ctypes.c_int(op), ctypes.c_uint32(root), stream=stream)

    def broadcast(self, buffer, count, dtype, root, stream=None):
        self.call("Broadcast", buffer, count, ctypes.c_int(TYPES[dtype]), ctypes.c_uint32(root), stream=stream)

    def all_gather(self, send, receive, count, dtype, stream=None):
        self.call("AllGather", send, receive, count, ctypes.c_int(TYPES[dtype]), stream=stream)

    def all_gather_v(self, send, receive, counts, places, dtype, stream=None, sent=None):
        self.call("AllGatherV", send, counts[self.rank] if sent is None else sent, receive, u64(counts), u64(places),
                  ctypes.c_int(TYPES[dtype]), stream=stream)

    def reduce_scatter(self, send, receive, count, dtype, op=SUM, stream=None):
        self.call("ReduceScatter", send, receive, count, ctypes.c_int(TYPES[dtype]), ctypes.c_int(op), stream=stream)

    def reduce_scatter_v(self, send, receive, counts, places, dtype, op=SUM, stream=None):
        self.call("ReduceScatterV", send, u64(counts), u64(places), receive, counts[self.rank], ctypes.c_int(TYPES[dtype]),
                  ctypes.c_int(op), stream=stream)

    def scatter(self, send, receive, count, dtype, root, stream=None):
        self.call("Scatter", send, receive, count, ctypes.c_int(TYPES[dtype]), ctypes.c_uint32(root), stream=stream)

    def all_to_all(self, send, receive, count, dtype, stream=None):
        kind = ctypes.c_int(TYPES[dtype])
        self.call("AlltoAll", send, count, kind, receive, count, kind, stream=stream)

    def all_to_all_v(self, send, counts, places, receive, receive_counts, receive_places, dtype, stream=None):
        kind = ctypes.c_int(TYPES[dtype])
        self.call("AlltoAllV", send, u64(counts), u64(places), kind, receive, u64(receive_counts), u64(receive_places), kind,
                  stream=stream)

    def all_to_all_vc(self, send, matrix, receive, dtype, stream=None):
        kind = ctypes.c_int(TYPES[dtype])
        self.call("AlltoAllVC", send, u64([int(n) for row in matrix for n in row]), kind, receive, kind, stream=stream)

    def send(self, buffer, count, dtype, peer, stream=None):
        self.call("Send", buffer, count, ctypes.c_int(TYPES[dtype]), ctypes.c_uint32(peer), stream=stream)

    def receive(self, buffer, count, dtype, peer, stream=None):
        self.call("Recv", buffer, count, ctypes.c_int(TYPES[dtype]), ctypes.c_uint32(peer), stream=stream)

    def batch(self, items, stream=None):
        """items: (0 to send or 1 to receive, buffer, count, dtype, peer)."""
        array = (SendRecvItem * len(items))(*[SendRecvItem(kind, buffer.address, count, TYPES[dtype], peer)
                                              for kind, buffer, count, dtype, peer in items])
        self.call("BatchSendRecv", array, ctypes.c_uint32(len(items)), stream=stream)

    def barrier(self, stream=None):
        self.call("Barrier", stream=stream)

    def async_error(self):
        code = ctypes.c_int(-1)
        check(hccl.HcclGetCommAsyncError(self.handle, ctypes.byref(code)))
        return code.value

    def name(self):
        text = ctypes.create_string_buffer(128)
        check(hccl.HcclGetCommName(self.handle, text))
        return text.value.decode()

    def destroy(self):
        check(hccl.HcclCommDestroy(self.handle))


def synchronize():
    """Waits for the default stream; raises what failed on it."""
    check(acl.aclrtSynchronizeStream(None))


def open_device(index=0):
    check(acl.aclrtSetDevice(index))
