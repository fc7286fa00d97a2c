"""A loaded model and its runs."""
import dataclasses
import math
import time
from typing import List, Optional

import acl
import numpy as np

from .tensor import ACL_TYPES, HOST_TO_DEVICE, BaseTensor, Memory, Tensor, check, copy, dtype, on_device

GEARS = "ascend_mbatch_shape_data"
ND = 2
ALREADY = 100002   # ACL_ERROR_REPEAT_INITIALIZE: another session's, or the program's own


@dataclasses.dataclass
class session_options:
    """`loop`: how often run() computes; `log_level` is kept and has no effect (CANN's log has its own settings)."""
    loop: int = 1
    log_level: int = 3
    acl_json_path: Optional[str] = None


@dataclasses.dataclass
class sumary:
    """Milliseconds of each computing."""
    exec_time_list: List[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class tensor_desc:
    """An input or output: aclFormat's number, shape with -1 where it is open, bytes (0: open; of a model with gears the largest).

    `realsize`: bytes of the gear or sizes that were chosen last; without a choice `size`.
    """
    name: str
    datatype: dtype
    format: int
    shape: List[int]
    size: int
    realsize: int


def parsed(text):
    """{name: dims} of "a:1,3;b:2"."""
    made = {}
    for one in filter(None, text.split(";")):
        name, _, dims = one.rpartition(":")
        if not name:
            raise ValueError(f"sizes are written as name:1,3;other:2, not {text!r}")
        made[name] = [int(dim) for dim in dims.split(",")]
    return made


class InferenceSession:
    tensor = Tensor   # what run() gives

    def __init__(self, model_path, device_id=0, options=None):
        self._options, self._device, self._sumary = options or session_options(), device_id, sumary()
        ret = acl.init(*filter(None, [self._options.acl_json_path]))
        check(0 if ret == ALREADY else ret, "acl.init")
        check(acl.rt.set_device(device_id), f"acl.rt.set_device({device_id})")
        self._id, ret = self._load(model_path)
        check(ret, f"loading {model_path}")
        self._desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(self._desc, self._id), "acl.mdl.get_desc")
        gear, ret = acl.mdl.get_input_index_by_name(self._desc, GEARS)
        self._gear = gear if ret == 0 else None
        self._choose, self._shapes, self._sizes, self._real = None, {}, [], {}

    def _load(self, path):
        return acl.mdl.load_from_file(str(path))

    def _described(self, side, count):
        dims_of, size_of, type_of, format_of, name_of = (getattr(acl.mdl, f"get_{side}_{what}") for what in (
            "dims", "size_by_index", "data_type", "format", "name_by_index"))
        made = []
        for index in range(count):
            dims, ret = dims_of(self._desc, index)
            check(ret, f"acl.mdl.get_{side}_dims")
            number, size = type_of(self._desc, index), size_of(self._desc, index)
            made.append(tensor_desc(name_of(self._desc, index), dtype[ACL_TYPES[number]], format_of(self._desc, index),
                                    dims["dims"], size, size))
        return made

    def get_inputs(self):
        """The inputs that a caller gives, without the one that says the gear."""
        every = self._described("input", acl.mdl.get_num_inputs(self._desc))
        given = [one for index, one in enumerate(every) if index != self._gear]
        for one in given:
            one.realsize = self._real.get(one.name, one.size)
        return given

    def get_outputs(self):
        return self._described("output", acl.mdl.get_num_outputs(self._desc))

    def options(self):
        return self._options

    def sumary(self):
        return self._sumary

    def reset_sumaryinfo(self):
        self._sumary.exec_time_list.clear()

    def gears(self):
        """("batch", sizes), ("size", [[height, width]]), ("dims", [dimensions of all inputs]); (None, []) without a choice."""
        if self._gear is None:
            return None, []
        batches, ret = acl.mdl.get_dynamic_batch(self._desc)
        check(ret, "acl.mdl.get_dynamic_batch")
        sizes, ret = acl.mdl.get_dynamic_hw(self._desc)
        check(ret, "acl.mdl.get_dynamic_hw")
        if batches["batchCount"] or sizes["hwCount"]:
            return ("batch", batches["batch"]) if batches["batchCount"] else ("size", sizes["hw"])
        count, ret = acl.mdl.get_input_dynamic_gear_count(self._desc)
        check(ret, "acl.mdl.get_input_dynamic_gear_count")
        dims, ret = acl.mdl.get_input_dynamic_dims(self._desc, -1, count)
        check(ret, "acl.mdl.get_input_dynamic_dims")
        return "dims", [one["dims"] for one in dims]

    def set_staticbatch(self):
        self._choose, self._shapes, self._real = None, {}, {}

    def set_dynamic_batchsize(self, batch):
        self._need_gears("batch sizes")
        batch = int(batch)
        self._choose = lambda inputs: acl.mdl.set_dynamic_batch_size(self._id, inputs, self._gear, batch)
        self._fill(lambda shape: [batch])

    def set_dynamic_hw(self, width, height):
        self._need_gears("picture sizes")
        width, height = int(width), int(height)
        self._choose = lambda inputs: acl.mdl.set_dynamic_hw_size(self._id, inputs, self._gear, height, width)
        self._fill(lambda shape: [height, width])

    def set_dynamic_dims(self, text):
        """"name:1,3;other:2": the sizes of all inputs."""
        self._need_gears("sets of sizes")
        given = parsed(text)
        dims = [dim for one in self.get_inputs() for dim in given[one.name]]
        self._choose = lambda inputs: acl.mdl.set_input_dynamic_dims(
            self._id, inputs, self._gear, {"name": "", "dimCount": len(dims), "dims": dims})
        self._measure(given)

    def set_dynamic_shape(self, text):
        """"name:1,3;other:2" for a model with open sizes."""
        self._shapes = parsed(text)
        self._measure(self._shapes)

    def _fill(self, values):
        """Bytes of the inputs whose open dimensions hold these values, in order."""
        shapes = {}
        for one in self.get_inputs():
            left = iter(values(one.shape))
            shapes[one.name] = [next(left, 1) if dim < 0 else dim for dim in one.shape]
        self._measure(shapes)

    def _measure(self, shapes):
        sizes = {one.name: acl.data_type_size(int(one.datatype)) for one in self.get_inputs()}
        self._real = {name: math.prod(shape) * sizes.get(name, 0) for name, shape in shapes.items()}

    def set_custom_outsize(self, sizes):
        """Bytes of each output, for a model that cannot tell."""
        self._sizes = list(sizes)

    def _need_gears(self, what):
        if self._gear is None:
            raise RuntimeError(f"the model has no choice of {what}: convert it with --dynamic_batch_size and the like")

    def _ordered(self, feeds):
        descs = self.get_inputs()
        tensors = [feeds[one.name] for one in descs] if isinstance(feeds, dict) else list(feeds)
        if len(tensors) != len(descs):
            raise ValueError(f"the model has the inputs {[one.name for one in descs]}, and {len(tensors)} tensors are given")
        return descs, tensors

    def run(self, output_names, feeds):
        """Tensors on the device, of the outputs named. `feeds`: Tensors or BaseTensors in order, or by name."""
        check(acl.rt.set_device(self._device), "acl.rt.set_device")
        descs, tensors = self._ordered(feeds)
        outputs = self.get_outputs()
        unknown = set(output_names) - {one.name for one in outputs}
        if unknown:
            raise ValueError(f"the model has the outputs {[one.name for one in outputs]}, not {sorted(unknown)}")
        places = [self._place(tensor) for tensor in tensors]
        if self._gear is not None:
            size = acl.mdl.get_input_size_by_index(self._desc, self._gear)
            places.insert(self._gear, (Memory(size), None, size))
        rooms = [Memory(self._room(index, one)) for index, one in enumerate(outputs)]
        inputs = Dataset((memory.address if memory else address, size) for memory, address, size in places)
        results = Dataset((room.address, room.size) for room in rooms)
        for index, one in enumerate(descs):
            if one.name in self._shapes:
                inputs.describe(index, acl.mdl.get_input_data_type(self._desc, index), self._shapes[one.name])
        if self._choose:
            check(self._choose(inputs.handle), "the choice of sizes")
        for _ in range(self._options.loop):
            start = time.perf_counter()
            check(acl.mdl.execute(self._id, inputs.handle, results.handle), "acl.mdl.execute")
            self._sumary.exec_time_list.append((time.perf_counter() - start) * 1e3)
        made = {}
        for index, (one, room) in enumerate(zip(outputs, rooms)):
            number = acl.mdl.get_output_data_type(self._desc, index)
            made[one.name] = self.tensor._on_device(room, self._shape(results, index), number, self._device)
        return [made[name] for name in output_names or made]

    def _place(self, tensor):
        """(memory or None, address, bytes); what is on the host is brought to the device."""
        if isinstance(tensor, BaseTensor):
            if on_device(tensor.buf):
                return None, tensor.buf, tensor.size
            memory = Memory(tensor.size)
            if tensor.size:
                copy(memory.address, tensor.buf, tensor.size, HOST_TO_DEVICE)
            return memory, None, tensor.size
        tensor.to_device(self._device)
        return tensor._memory, None, tensor.nbytes

    def _room(self, index, desc):
        size = self._sizes[index] if index < len(self._sizes) else desc.size
        if not size:
            raise RuntimeError(f"output {desc.name} has sizes that are known after the run: give bytes by set_custom_outsize")
        return size

    def _shape(self, results, index):
        desc = acl.mdl.get_dataset_tensor_desc(results.handle, index)
        if not desc:
            dims, ret = acl.mdl.get_cur_output_dims(self._desc, index)
            check(ret, "acl.mdl.get_cur_output_dims")
            return dims["dims"]
        return [acl.get_tensor_desc_dim_v2(desc, axis)[0] for axis in range(acl.get_tensor_desc_num_dims(desc))]

    def create_tensor_from_fileslist(self, desc, files):
        """A tensor on the device of an input's type and shape, filled with the bytes of the files, one after the other."""
        data = b"".join(_content(file) for file in files)
        dims = desc.shape if min(desc.shape, default=0) >= 0 else self._shapes.get(desc.name, [])
        wanted = desc.realsize or len(data)
        if len(data) != wanted:
            raise ValueError(f"input {desc.name} has {wanted} bytes, and the files {len(data)}: {list(files)}")
        array = np.frombuffer(data, np.dtype(ACL_TYPES[int(desc.datatype)]))
        tensor = Tensor(array.reshape(dims) if dims and math.prod(dims) == array.size else array)
        tensor.to_device(self._device)
        return tensor

    def finalize(self):
        """Unloads the model; again, it does nothing."""
        if self._id is not None:
            check(acl.mdl.destroy_desc(self._desc), "acl.mdl.destroy_desc")
            check(acl.mdl.unload(self._id), "acl.mdl.unload")
            self._id = None

    def __repr__(self):
        return f"<aclruntime.InferenceSession: {self.get_inputs()} -> {self.get_outputs()}>"


def _content(path):
    with open(path, "rb") as file:
        return file.read()


def model(modelPath, deviceId=0, options=None):
    """An InferenceSession."""
    return InferenceSession(modelPath, deviceId, options)


class Dataset:
    """A dataset of (address, bytes), destroyed with this object."""

    def __init__(self, places):
        self.handle, self.buffers, self.descs = acl.mdl.create_dataset(), [], []
        for address, size in places:
            self.buffers.append(acl.create_data_buffer(address, size))
            check(acl.mdl.add_dataset_buffer(self.handle, self.buffers[-1])[1], "acl.mdl.add_dataset_buffer")

    def describe(self, index, number, dims):
        self.descs.append(acl.create_tensor_desc(number, dims, ND))
        size = math.prod(dims) * acl.data_type_size(number)
        if size > acl.get_data_buffer_size_v2(self.buffers[index]):
            raise ValueError(f"input {index} of the sizes {dims} has {size} bytes, more than its tensor")
        check(acl.mdl.set_dataset_tensor_desc(self.handle, self.descs[-1], index)[1], "acl.mdl.set_dataset_tensor_desc")

    def __del__(self):
        for buffer in self.buffers:
            acl.destroy_data_buffer(buffer)
        acl.mdl.destroy_dataset(self.handle)
        for desc in self.descs:
            acl.destroy_tensor_desc(desc)
