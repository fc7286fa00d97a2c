"""Offline models."""
import dataclasses

import acl
from aclruntime.session import InferenceSession

from ._device import use_device
from ._enums import ModelLoadType, ModelType, dtype, visionDataFormat
from ._tensor import Tensor

NHWC = 1   # aclFormat


@dataclasses.dataclass
class ModelLoadOptV2:
    """Where a model comes from, and the memory it uses: addresses and bytes, 0 for memory that the model takes itself."""
    modelType: ModelType = ModelType.model_type_om
    loadType: ModelLoadType = ModelLoadType.load_model_from_file
    modelPath: str = ""
    modelPtr: int = 0
    modelSize: int = 0
    modelWorkPtr: int = 0
    workSize: int = 0
    modelWeightPtr: int = 0
    weightSize: int = 0

    def load(self):
        """(the model's number, CANN's code)."""
        if self.modelType != ModelType.model_type_om:
            raise RuntimeError("Model: MindIR is not served: export the network to ONNX and convert that with atc")
        source = (self.modelPath,) if self.loadType.value <= 2 else (self.modelPtr, self.modelSize)
        memory = (self.modelWorkPtr, self.workSize, self.modelWeightPtr, self.weightSize)
        names = {ModelLoadType.load_model_from_file: "load_from_file", ModelLoadType.load_model_from_mem: "load_from_mem",
                 ModelLoadType.load_model_from_file_with_mem: "load_from_file_with_mem",
                 ModelLoadType.load_model_from_mem_with_mem: "load_from_mem_with_mem"}
        return getattr(acl.mdl, names[self.loadType])(*source, *(memory if self.loadType.name.endswith("_with_mem") else ()))


class _Session(InferenceSession):
    tensor = Tensor

    def _load(self, option):
        return option.load()


class Model:
    """A model of a file (`modelPath`), or of a ModelLoadOptV2, on a device."""

    def __init__(self, modelPath=None, deviceId=0, option=None):
        option = option or (modelPath if isinstance(modelPath, ModelLoadOptV2) else ModelLoadOptV2(modelPath=str(modelPath)))
        use_device(deviceId)
        self._device, self._session = deviceId, _Session(option, deviceId)
        self._inputs, self._outputs = self._session.get_inputs(), self._session.get_outputs()

    def __del__(self):
        if hasattr(self, "_session"):
            self._session.finalize()

    input_num = property(lambda self: len(self._inputs), doc="How many inputs there are.")
    output_num = property(lambda self: len(self._outputs), doc="How many outputs there are.")

    @property
    def input_format(self):
        """visionDataFormat of the first input; NCHW where the model has none."""
        return visionDataFormat.NHWC if self._inputs and self._inputs[0].format == NHWC else visionDataFormat.NCHW

    def input_shape(self, index):
        """Dimensions, -1 where they are open."""
        return list(self._of(self._inputs, index, "input").shape)

    def output_shape(self, index):
        return list(self._of(self._outputs, index, "output").shape)

    def input_dtype(self, index):
        return dtype[self._of(self._inputs, index, "input").datatype.name]

    def output_dtype(self, index):
        return dtype[self._of(self._outputs, index, "output").datatype.name]

    @staticmethod
    def _of(every, index, what):
        if not 0 <= index < len(every):
            raise RuntimeError(f"{what} {index}: the model has {len(every)}")
        return every[index]

    def model_gear(self):
        """The choices of a model with several sizes: [batch], [height, width], or the dimensions of all inputs; else nothing."""
        kind, gears = self._session.gears()
        return [[one] for one in gears] if kind == "batch" else gears

    def infer(self, *tensors):
        """The outputs, on the device, of the inputs in order: Tensors or a list of them. What is on the host is copied."""
        given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
        if len(given) != len(self._inputs):
            raise RuntimeError(f"infer: the model has {len(self._inputs)} inputs, and {len(given)} tensors are given")
        for desc, tensor in zip(self._inputs, given):
            self._check(desc, tensor)
        self._choose([tensor.shape for tensor in given])
        return self._session.run([], [tensor.copied_to(self._device) for tensor in given])

    def _check(self, desc, tensor):
        if tensor.dtype.name != desc.datatype.name:
            raise RuntimeError(f"infer: input {desc.name} is {desc.datatype.name}, not {tensor.dtype.name}")
        fixed = all(dim >= 0 for dim in desc.shape)
        if fixed and tensor.nbytes != desc.size:
            raise RuntimeError(f"infer: input {desc.name} is {desc.shape}, not {tensor.shape}")
        if not fixed and (len(tensor.shape) != len(desc.shape) or any(
                wanted not in (-1, size) for wanted, size in zip(desc.shape, tensor.shape))):
            raise RuntimeError(f"infer: input {desc.name} is {desc.shape}, not {tensor.shape}")

    def _choose(self, shapes):
        """Sizes of a model that has several, from those of the inputs."""
        if all(dim >= 0 for desc in self._inputs for dim in desc.shape):
            return
        text = ";".join(f"{desc.name}:{','.join(map(str, shape))}" for desc, shape in zip(self._inputs, shapes))
        kind, gears = self._session.gears()
        if kind == "batch":
            batch = next(shape[0] for desc, shape in zip(self._inputs, shapes) if desc.shape[0] < 0)
            self._in_gears([batch], [[one] for one in gears])
            self._session.set_dynamic_batchsize(batch)
        elif kind == "size":
            height, width = self._picture(shapes)
            self._in_gears([height, width], gears)
            self._session.set_dynamic_hw(width, height)
        elif kind == "dims":
            self._in_gears([dim for shape in shapes for dim in shape], gears)
            self._session.set_dynamic_dims(text)
        else:
            self._session.set_dynamic_shape(text)

    @staticmethod
    def _in_gears(wanted, gears):
        if wanted not in gears:
            raise RuntimeError(f"infer: sizes {wanted}; the model was converted for {gears}")

    def _picture(self, shapes):
        """Height and width of the input whose are open."""
        for desc, shape in zip(self._inputs, shapes):
            open_dims = [size for dim, size in zip(desc.shape, shape) if dim < 0]
            if len(open_dims) == 2:
                return open_dims
        raise RuntimeError("infer: no input has an open height and width")


def model(modelPath, deviceId=0):
    """Model(modelPath, deviceId)."""
    return Model(modelPath, deviceId)
