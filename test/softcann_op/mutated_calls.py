"""Random calls of aclnn's descriptors and operators, right and wrong, in one process: `mutated_calls.py SEED STEPS`.

Handles are alive, destroyed, of another kind, of nothing; sizes, strides, offsets, types, formats and addresses are what they should be,
or not. Each call may fail with a code that says so; nothing may crash, and after every hundred steps an operator still adds up rightly.
Prints how many calls ended how.
"""
import collections
import ctypes
import os
import pathlib
import random
import sys

from nn_client import ROOT, Client

INT64 = ctypes.c_int64
NULL, INVALID = 161001, 161002
OPERATORS = {   # operator: what it takes. t tensor, s scalar, i array of integers, l list of tensors, n number
    "aclnnAdd": "ttst", "aclnnNeg": "tt", "aclnnMul": "ttt", "aclnnCat": "lnt", "aclnnRepeat": "tit", "aclnnPermute": "tit", "aclnnMm": "tttb",
    "aclnnReduceSum": "tibdt", "aclnnInplaceZero": "t", "aclnnCast": "tdt", "aclnnInplaceCopy": "tt", "aclnnIndexSelect": "tntt",
}
BYTES = 1 << 16


def number(r):
    return r.choice((0, 1, 1, 2, 2, 3, 4, 5, 8, 100, 20_000, -1, -5, 1 << 31, (1 << 62) + 1, -(1 << 63), (1 << 63) - 1))


class Calls:
    def __init__(self, seed):
        self.r, self.call = random.Random(seed), Client(os.environ.get("TEST_LIBRARIES") or ROOT / "torch_npu" / "softcann" / "lib")
        self.lib, self.acl, self.counts = self.call.lib, self.call.acl, collections.Counter()
        self.memory = ctypes.c_void_p()
        assert self.acl.aclrtMalloc(ctypes.byref(self.memory), ctypes.c_size_t(BYTES), 0) == 0
        assert self.acl.aclrtMemset(self.memory, ctypes.c_size_t(BYTES), 0, ctypes.c_size_t(BYTES)) == 0
        self.alive = {"Tensor": [], "Scalar": [], "IntArray": [], "TensorList": []}
        self.executors, self.dead = [], [self.call.stream.value, self.memory.value]
        self.owned = set()   # tensors that are a list's

    def small(self):
        return self.r.choice((1, 2, 3, 4)) if self.r.random() < 0.9 else number(self.r)

    def handle(self, kind):
        r, chance = self.r, self.r.random()
        others = [handle for handles in self.alive.values() for handle in handles]
        if chance < 0.85 and self.alive[kind]:
            return r.choice(self.alive[kind])
        if chance < 0.88 and others:
            return r.choice(others)
        if chance < 0.92 and others:
            return (r.choice(others) + r.choice((1, 8, -8, 1 << 48, 1 << 63))) % (1 << 64)
        return r.choice(self.dead + [None, 0xdead000, 1, (1 << 64) - 8])

    def make_tensor(self):
        r, rank = self.r, self.r.choice((0, 1, 1, 2, 2, 3, 5)) if self.r.random() < 0.97 else 70
        dims = [self.small() for _ in range(rank)]
        strides = []
        for _ in dims:
            strides.insert(0, strides[0] * max(1, dims[len(dims) - len(strides)]) if strides else 1)
        strides = [self.small() if r.random() < 0.05 else max(-(1 << 63), min(stride, (1 << 63) - 1)) for stride in strides]
        storage = [BYTES // 8] if r.random() < 0.9 else [self.small() for _ in range(r.randrange(4))]
        address = self.memory.value + 8 * r.randrange(64) if r.random() < 0.93 else r.choice((None, 0x1000, self.memory.value + BYTES))
        dtype = r.choice((0, 0, 0, 0, 1, 2, 3, 9, 11, 12, 16, 27)) if r.random() < 0.95 else r.randrange(-3, 60)
        longs = INT64 * max(rank, 1)
        return self.lib.aclCreateTensor(
            longs(*dims) if r.random() < 0.98 else None, ctypes.c_uint64(rank), dtype, longs(*strides) if r.random() < 0.9 else None,
            INT64(0 if r.random() < 0.9 else number(r)), 2 if r.random() < 0.95 else r.randrange(-2, 40),
            (INT64 * max(1, len(storage)))(*storage) if r.random() < 0.98 else None, ctypes.c_uint64(len(storage)), ctypes.c_void_p(address))

    def make(self):
        r, kind = self.r, self.r.choice(("Tensor", "Tensor", "Tensor", "Scalar", "IntArray", "TensorList"))
        if kind == "Tensor":
            made = self.make_tensor()
        elif kind == "Scalar":
            value = ctypes.create_string_buffer(16)
            made = self.lib.aclCreateScalar(value if r.random() < 0.97 else None, r.choice((0, 1, 9, 11, 12, 27, 40)))
        elif kind == "IntArray":
            values = [self.small() for _ in range(r.randrange(12))]
            made = self.lib.aclCreateIntArray((INT64 * 12)(*values) if r.random() < 0.95 else None, ctypes.c_uint64(len(values)))
        else:
            handles = [self.handle("Tensor") for _ in range(r.randrange(4))]
            made = self.lib.aclCreateTensorList((ctypes.c_void_p * 4)(*handles), ctypes.c_uint64(len(handles)))
            if made:
                self.owned.update(handles)
                self.alive["Tensor"] = [handle for handle in self.alive["Tensor"] if handle not in handles]
        self.counts["made" if made else "not made"] += 1
        if made:
            self.alive[kind].append(made)

    def forget(self, kind, handles):
        for handle in handles:
            if handle in self.alive[kind]:
                self.alive[kind].remove(handle)
                self.dead.append(handle)
        del self.dead[2:-200]

    def count(self, code, allowed=()):
        assert code in (0, NULL, INVALID, *allowed), (code, self.acl.aclGetRecentErrMsg())
        self.counts[code] += 1
        return code

    def destroy(self):
        kind = self.r.choice(list(self.alive))
        handle = self.handle(kind)
        known = handle in self.alive[kind]
        code = self.count(getattr(self.lib, "aclDestroy" + kind)(ctypes.c_void_p(handle)))
        assert (code == 0) == (known or handle is None) or handle in self.owned, (kind, handle, code)
        self.forget(kind, [handle])

    def look(self):
        handle, kind, where = ctypes.c_void_p(self.handle("Tensor")), ctypes.c_int(), ctypes.c_void_p()
        code = self.count(self.lib.aclGetDataType(handle, ctypes.byref(kind)))
        assert self.count(self.lib.aclGetRawTensorAddr(handle, ctypes.byref(where))) == code
        if self.r.random() < 0.3:
            self.count(self.lib.aclSetRawTensorAddr(handle, ctypes.c_void_p(where.value)))

    def operate(self):
        name = self.r.choice(list(OPERATORS))
        kinds = {"t": "Tensor", "s": "Scalar", "i": "IntArray", "l": "TensorList"}
        arguments = []
        for kind in OPERATORS[name]:
            if kind in kinds:
                arguments.append(ctypes.c_void_p(self.handle(kinds[kind])))
            else:
                arguments.append({"n": INT64(self.small()), "b": ctypes.c_int8(self.r.randrange(2)),
                                  "d": ctypes.c_int(self.r.choice((0, 1, 9, 27, 50)))}[kind])
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        if self.count(getattr(self.lib, name + "GetWorkspaceSize")(*arguments, ctypes.byref(size), ctypes.byref(executor))) == 0:
            self.executors.append((name, executor.value))

    def launch(self):
        if not self.executors:
            return
        at = self.r.randrange(len(self.executors))
        name, executor = self.executors.pop(at)
        if self.r.random() < 0.1:   # another operator's
            name = self.r.choice(list(OPERATORS))
            self.executors.append((name, executor))
            name = "aclnnSub"
        if self.r.random() < 0.1:
            self.count(self.lib.aclDestroyAclOpExecutor(ctypes.c_void_p(executor)))
        code = self.count(getattr(self.lib, name)(None, ctypes.c_uint64(0), ctypes.c_void_p(executor), self.call.stream), (507015, 507035))
        if code == 0 and self.r.random() < 0.2:
            assert self.count(getattr(self.lib, name)(None, ctypes.c_uint64(0), ctypes.c_void_p(executor), self.call.stream)) == INVALID

    def right(self):
        """An addition that has to be right, and the stream's health."""
        self.count(self.acl.aclrtSynchronizeStream(self.call.stream), (507015, 507035))
        x, host, four = self.memory.value, (ctypes.c_float * 4)(1, 2, 3, 4), ctypes.c_size_t(16)
        assert self.acl.aclrtMemcpy(ctypes.c_void_p(x), four, host, four, 1) == 0
        longs = INT64 * 1
        made = [ctypes.c_void_p(self.lib.aclCreateTensor(longs(4), ctypes.c_uint64(1), 0, longs(1), INT64(0), 2, longs(4), ctypes.c_uint64(1),
                                                         ctypes.c_void_p(x))) for _ in range(2)]
        one = self.call.scalar(1.0)
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        assert self.lib.aclnnAddGetWorkspaceSize(made[0], made[0], one, made[1], ctypes.byref(size), ctypes.byref(executor)) == 0
        assert self.lib.aclnnAdd(None, size, executor, self.call.stream) == 0
        assert self.acl.aclrtSynchronizeStream(self.call.stream) == 0
        assert self.acl.aclrtMemcpy(host, four, ctypes.c_void_p(x), four, 2) == 0 and list(host) == [2, 4, 6, 8], list(host)
        for tensor in made:
            assert self.lib.aclDestroyTensor(tensor) == 0
        assert self.lib.aclDestroyScalar(one) == 0

    def run(self, steps):
        kinds = [self.make] * 5 + [self.destroy] * 2 + [self.look] + [self.operate] * 5 + [self.launch] * 3
        for step in range(steps):
            self.r.choice(kinds)()
            if step % 100 == 99:
                self.right()


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    __import__("faulthandler").enable()
    calls = Calls(int(sys.argv[1]))
    calls.run(int(sys.argv[2]))
    print(dict(calls.counts))
