"""A model from torch to pyACL: export to ONNX, convert to an .om, run with `import acl`, compare with eager.

    pip install softcann[atc] numpy
    python examples/offline/infer.py [--batch 2] [--keep folder]

With softcann alone, or in a shell of CANN's (then atc and acl are CANN's, where they are installed).
"""
import argparse
import pathlib
import tempfile

import acl
import numpy as np
import torch
from torch import nn

MALLOC_HUGE_FIRST, HOST_TO_DEVICE, DEVICE_TO_HOST = 0, 1, 2
NUMPY = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.uint8, 6: np.int16, 9: np.int64, 11: np.float64,
         12: np.bool_}


def check(ret, what):
    if ret:
        raise RuntimeError(f"{what}: {ret}: {acl.get_recent_err_msg()}")


def value(result, what):
    """The value of (value, ret)."""
    check(result[-1], what)
    return result[0]


class Model:
    """An .om of fixed sizes on device 0: call it with arrays in the inputs' order, and it gives a list of the outputs' arrays."""

    def __init__(self, path):
        self.id = value(acl.mdl.load_from_file(str(path)), "acl.mdl.load_from_file")
        self.desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(self.desc, self.id), "acl.mdl.get_desc")
        self.inputs = self._dataset(acl.mdl.get_num_inputs, acl.mdl.get_input_size_by_index)
        self.outputs = self._dataset(acl.mdl.get_num_outputs, acl.mdl.get_output_size_by_index)

    def _dataset(self, count, size_of):
        dataset = acl.mdl.create_dataset()
        for index in range(count(self.desc)):
            size = size_of(self.desc, index)
            address = value(acl.rt.malloc(size, MALLOC_HUGE_FIRST), "acl.rt.malloc")
            value(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size)), "acl.mdl.add_dataset_buffer")
        return dataset

    def __call__(self, *arrays):
        for index, array in enumerate(arrays):
            address, array = acl.util.numpy_contiguous_to_ptr(array)
            buffer = acl.mdl.get_dataset_buffer(self.inputs, index)
            check(acl.rt.memcpy(acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer), address, array.nbytes,
                                HOST_TO_DEVICE), "acl.rt.memcpy")
        check(acl.mdl.execute(self.id, self.inputs, self.outputs), "acl.mdl.execute")
        return [self._output(index) for index in range(acl.mdl.get_num_outputs(self.desc))]

    def _output(self, index):
        dims = value(acl.mdl.get_cur_output_dims(self.desc, index), "acl.mdl.get_cur_output_dims")
        array = np.empty(dims["dims"], NUMPY[acl.mdl.get_output_data_type(self.desc, index)])
        buffer = acl.mdl.get_dataset_buffer(self.outputs, index)
        check(acl.rt.memcpy(acl.util.numpy_to_ptr(array), array.nbytes, acl.get_data_buffer_addr(buffer), array.nbytes,
                            DEVICE_TO_HOST), "acl.rt.memcpy")
        return array

    def close(self):
        for dataset in (self.inputs, self.outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                buffer = acl.mdl.get_dataset_buffer(dataset, index)
                check(acl.rt.free(acl.get_data_buffer_addr(buffer)), "acl.rt.free")
                check(acl.destroy_data_buffer(buffer), "acl.destroy_data_buffer")
            check(acl.mdl.destroy_dataset(dataset), "acl.mdl.destroy_dataset")
        check(acl.mdl.destroy_desc(self.desc), "acl.mdl.destroy_desc")
        check(acl.mdl.unload(self.id), "acl.mdl.unload")


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10), nn.Softmax(-1)).eval()


def convert(net, x, folder):
    from softcann import atc

    torch.onnx.export(net, (x,), str(folder / "net.onnx"), input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
    return atc.convert(folder / "net.onnx", folder / "net", soc_version=acl.get_soc_name(), precision_mode_v2="origin")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--batch", type=int, default=2)
    options.add_argument("--keep", type=pathlib.Path, help="folder for net.onnx and net.om; default one that is removed")
    given = options.parse_args()
    torch.manual_seed(0)
    net, x = network(), torch.randn(given.batch, 3, 32, 32)
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    with tempfile.TemporaryDirectory() as temporary:
        model = Model(convert(net, x, given.keep or pathlib.Path(temporary)))
        found, = model(x.numpy())
        model.close()
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")
    with torch.no_grad():
        difference = np.abs(found - net(x).numpy()).max()
    print(f"output {list(found.shape)}, largest difference from eager {difference:.1e}")
    if not difference < 1e-5:
        raise SystemExit("the model differs from eager")


if __name__ == "__main__":
    main()
