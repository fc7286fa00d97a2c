"""Mixed precision by optimization levels, with Apex's interface.

    model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()

=====  ==============  =====================  ==============  ==============
level  the model       batch norm             optimizer       loss scale
=====  ==============  =====================  ==============  ==============
O0     float32         float32                its parameters  1
O1     autocast        float32 in autocast    its parameters  dynamic
O2     float16         float32                float32 copies  dynamic
O3     float16         float16                its parameters  1
=====  ==============  =====================  ==============  ==============

In O1 the models' ``forward`` runs under ``torch.autocast("npu")`` and its results come back as float32; functions called
outside a model are not touched, where Apex patches all of torch.
"""

from torch_npu.contrib.apex.amp._casts import (
    disable_casts,
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from torch_npu.contrib.apex.amp._optimizer import master_params
from torch_npu.contrib.apex.amp._session import initialize, load_state_dict, scale_loss, state_dict
from torch_npu.contrib.apex.amp._state import AmpState

_amp_state = AmpState()   # programs know it by this name

__all__ = [
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]
