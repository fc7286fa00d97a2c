"""A client of aclmdl* in ctypes: loads a model, runs it on torch CPU tensors through device memory."""
import ctypes
import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACL_TYPES = {torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.int64: 9,
             torch.float64: 11, torch.bool: 12, torch.bfloat16: 27}
TORCH_TYPES = {number: dtype for dtype, number in ACL_TYPES.items()}
POINTERS = ["aclmdlCreateDesc", "aclmdlCreateDataset", "aclCreateDataBuffer", "aclmdlGetDatasetTensorDesc", "aclmdlGetDatasetBuffer",
            "aclGetDataBufferAddr", "aclCreateTensorDesc", "aclmdlCreateConfigHandle", "aclmdlCreateExecConfigHandle"]
SIZES = ["aclmdlGetNumInputs", "aclmdlGetNumOutputs", "aclmdlGetInputSizeByIndex", "aclmdlGetOutputSizeByIndex",
         "aclGetTensorDescNumDims", "aclGetDataBufferSizeV2", "aclmdlGetDatasetNumBuffers"]
TEXTS = ["aclGetRecentErrMsg", "aclmdlGetInputNameByIndex", "aclmdlGetOutputNameByIndex", "aclmdlGetTensorRealName", "aclmdlGetOpAttr"]
GEAR_INPUT = b"ascend_mbatch_shape_data"


class Dims(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 128), ("count", ctypes.c_size_t), ("dims", ctypes.c_int64 * 128)]

    def list(self):
        return self.dims[:self.count]


class Error(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Acl:
    """libascendcl with a device and a stream; functions raise Error for a code that is not 0."""

    def __init__(self):
        folder = pathlib.Path(os.environ.get("TEST_LIBRARIES", ROOT / "torch_npu" / "softcann" / "lib"))
        self.lib = ctypes.CDLL(str(folder / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        for names, kind in ((POINTERS, ctypes.c_void_p), (SIZES, ctypes.c_size_t), (TEXTS, ctypes.c_char_p)):
            for name in names:
                getattr(self.lib, name).restype = kind
        self.plain = {*POINTERS, *SIZES, *TEXTS, "aclmdlGetInputDataType", "aclmdlGetOutputDataType", "aclmdlGetInputFormat",
                      "aclmdlGetOutputFormat"}
        self.lib.aclInit(None)
        self.aclrtSetDevice(0)
        self.stream = ctypes.c_void_p()
        self.aclrtCreateStream(ctypes.byref(self.stream))

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            # Whole numbers are size_t or narrower, and pointers; a caller's 64 bits are never too many.
            result = function(*[ctypes.c_uint64(arg) if isinstance(arg, int) else arg for arg in args])
            if name not in self.plain and result:
                raise Error(result, self.lib.aclGetRecentErrMsg().decode())
            return result
        return call

    def malloc(self, size):
        address = ctypes.c_void_p()
        self.aclrtMalloc(ctypes.byref(address), size, 0)
        return address.value

    def upload(self, tensor):
        tensor = tensor.contiguous()
        address = self.malloc(max(tensor.nbytes, 1))
        if tensor.nbytes:
            self.aclrtMemcpy(address, tensor.nbytes, tensor.data_ptr(), tensor.nbytes, 1)
        return address

    def download(self, address, dims, dtype):
        tensor = torch.empty(dims, dtype=dtype)
        if tensor.nbytes:
            self.aclrtMemcpy(tensor.data_ptr(), tensor.nbytes, address, tensor.nbytes, 2)
        return tensor

    def dataset(self, addresses_and_sizes):
        dataset = self.aclmdlCreateDataset()
        for address, size in addresses_and_sizes:
            self.aclmdlAddDatasetBuffer(dataset, self.aclCreateDataBuffer(address, size))
        return dataset

    def describe(self, dataset, index, tensor):
        dims = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
        self.aclmdlSetDatasetTensorDesc(dataset, self.aclCreateTensorDesc(ACL_TYPES[tensor.dtype], tensor.dim(), dims, 2), index)


class Loaded:
    """A model that was loaded from a file (a path) or from memory (bytes)."""

    def __init__(self, acl, source):
        self.acl, number = acl, ctypes.c_uint32()
        if isinstance(source, bytes):
            acl.aclmdlLoadFromMem(source, len(source), ctypes.byref(number))
        else:
            acl.aclmdlLoadFromFile(str(source).encode(), ctypes.byref(number))
        self.id = number.value
        self.desc = acl.aclmdlCreateDesc()
        acl.aclmdlGetDesc(self.desc, self.id)

    def dims(self, function, index):
        dims = Dims()
        getattr(self.acl, function)(self.desc, index, ctypes.byref(dims))
        return dims.list()

    def input_set(self, tensors, gear=False):
        """A dataset of the inputs; with `gear` the one that tells the size behind them."""
        pairs = [(self.acl.upload(tensor), max(tensor.nbytes, 1)) for tensor in tensors]
        if gear:
            size = self.acl.aclmdlGetInputSizeByIndex(self.desc, len(tensors))
            pairs.append((self.acl.malloc(size), size))
        return self.acl.dataset(pairs)

    def output_set(self, sizes=None):
        count = self.acl.aclmdlGetNumOutputs(self.desc)
        sizes = sizes or [self.acl.aclmdlGetOutputSizeByIndex(self.desc, index) for index in range(count)]
        return self.acl.dataset([(self.acl.malloc(size) if size else None, size) for size in sizes])

    def read(self, outputs, index, dims=None):
        dtype = TORCH_TYPES[self.acl.aclmdlGetOutputDataType(self.desc, index)]
        address = self.acl.aclGetDataBufferAddr(self.acl.aclmdlGetDatasetBuffer(outputs, index))
        if dims is None:
            desc = self.acl.aclmdlGetDatasetTensorDesc(outputs, index)
            dims = self.desc_dims(desc) if desc else self.dims("aclmdlGetCurOutputDims", index)
        return self.acl.download(address, dims, dtype)

    def desc_dims(self, desc):
        dims = []
        for index in range(self.acl.aclGetTensorDescNumDims(desc)):
            size = ctypes.c_int64()
            self.acl.aclGetTensorDescDimV2(desc, index, ctypes.byref(size))
            dims.append(size.value)
        return dims

    def __call__(self, *tensors, asynchronous=False, sizes=None, described=False):
        inputs, outputs = self.input_set(tensors), self.output_set(sizes)
        for index, tensor in enumerate(tensors if described else ()):
            self.acl.describe(inputs, index, tensor)
        if asynchronous:
            self.acl.aclmdlExecuteAsync(self.id, inputs, outputs, self.acl.stream)
            self.acl.aclrtSynchronizeStream(self.acl.stream)
        else:
            self.acl.aclmdlExecute(self.id, inputs, outputs)
        made = [self.read(outputs, index) for index in range(self.acl.aclmdlGetNumOutputs(self.desc))]
        return made[0] if len(made) == 1 else made
