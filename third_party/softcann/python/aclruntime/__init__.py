"""aclruntime, ais_bench's interface to models (.om), on `acl`.

    session = aclruntime.InferenceSession("x.om", 0, aclruntime.session_options())
    tensor = aclruntime.Tensor(array)
    tensor.to_device(0)
    outputs = session.run([one.name for one in session.get_outputs()], [tensor])
    outputs[0].to_host()
    np.array(outputs[0])

A failure of CANN's raises RuntimeError with its code and text.
"""
from .session import InferenceSession, model, session_options, sumary, tensor_desc
from .tensor import BaseTensor, MemorySummary, Tensor, batch, dtype, type

__all__ = ["BaseTensor", "InferenceSession", "MemorySummary", "Tensor", "batch", "dtype", "model", "session_options", "sumary",
           "tensor_desc", "type"]
