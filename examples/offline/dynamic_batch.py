"""One .om for several batch sizes: requests of any number of rows run in the smallest batch that holds them.

    python examples/offline/dynamic_batch.py [--rows 1,3,8,11]

The model is converted with --dynamic_batch_size=1,2,4,8: it has one more input, ascend_mbatch_shape_data, into which
acl.mdl.set_dynamic_batch_size writes the batch of the next run. Rows that are missing in a batch are zeros, and what the model
makes of them is left out. In a shell of CANN's it runs on its atc and acl.
"""
import argparse
import pathlib
import tempfile

import acl
import numpy as np
import torch
from infer import DEVICE_TO_HOST, HOST_TO_DEVICE, Model, check, network, value

BATCHES = (1, 2, 4, 8)
GEAR = "ascend_mbatch_shape_data"


class Batched(Model):
    """A model of several batch sizes: takes arrays of any number of rows."""

    def __init__(self, path):
        super().__init__(path)   # buffers of the largest batch's size
        self.gear = value(acl.mdl.get_input_index_by_name(self.desc, GEAR), GEAR)
        found = value(acl.mdl.get_dynamic_batch(self.desc), "acl.mdl.get_dynamic_batch")
        self.batches = sorted(found["batch"])

    def __call__(self, x):
        most = self.batches[-1]
        return np.concatenate([self._run(x[start:start + most]) for start in range(0, len(x), most)])

    def _run(self, rows):
        batch = next(size for size in self.batches if size >= len(rows))
        padded = np.zeros((batch, *rows.shape[1:]), rows.dtype)
        padded[:len(rows)] = rows
        address, padded = acl.util.numpy_contiguous_to_ptr(padded)
        buffer = acl.mdl.get_dataset_buffer(self.inputs, 0)
        check(acl.rt.memcpy(acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer), address, padded.nbytes,
                            HOST_TO_DEVICE), "acl.rt.memcpy")
        check(acl.mdl.set_dynamic_batch_size(self.id, self.inputs, self.gear, batch), f"batch {batch}")
        check(acl.mdl.execute(self.id, self.inputs, self.outputs), "acl.mdl.execute")
        dims = value(acl.mdl.get_cur_output_dims(self.desc, 0), "acl.mdl.get_cur_output_dims")["dims"]   # of this batch
        found = np.empty(dims, np.float32)
        buffer = acl.mdl.get_dataset_buffer(self.outputs, 0)
        check(acl.rt.memcpy(acl.util.numpy_to_ptr(found), found.nbytes, acl.get_data_buffer_addr(buffer), found.nbytes,
                            DEVICE_TO_HOST), "acl.rt.memcpy")
        return found[:len(rows)]


def convert(net, folder):
    from softcann import atc

    torch.onnx.export(net, (torch.zeros(2, 3, 32, 32),), str(folder / "net.onnx"), input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, opset_version=17, dynamo=False)
    return atc.convert(folder / "net.onnx", folder / "net", soc_version=acl.get_soc_name(), precision_mode_v2="origin",
                       input_shape="x:-1,3,32,32", dynamic_batch_size=",".join(map(str, BATCHES)))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", default="1,3,8,11", help="sizes of the requests")
    sizes = [int(one) for one in options.parse_args().rows.split(",")]
    torch.manual_seed(0)
    net = network()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        model = Batched(convert(net, pathlib.Path(temporary)))
        for size in sizes:
            x = torch.randn(size, 3, 32, 32)
            found = model(x.numpy())
            with torch.no_grad():
                worst = max(worst, float(np.abs(found - net(x).numpy()).max()))
            print(f"{size} rows: output {list(found.shape)}")
        model.close()
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")
    print(f"largest difference from eager {worst:.1e}")
    if not worst < 1e-5:
        raise SystemExit("the model differs from eager")


if __name__ == "__main__":
    main()
