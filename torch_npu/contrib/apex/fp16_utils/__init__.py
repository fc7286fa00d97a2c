"""Training in float16 by hand, with the names of ``apex.fp16_utils``: networks in float16, float32 copies of parameters, scales.

    model = network_to_half(model.npu())
    optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), dynamic_loss_scale=True)
    optimizer.zero_grad()
    optimizer.backward(criterion(model(images), labels))
    optimizer.step()

New programs have ``torch.autocast("npu")`` and ``torch.amp.GradScaler("npu")``.
"""

from torch_npu.contrib.apex.fp16_utils.fp16_optimizer import FP16_Optimizer
from torch_npu.contrib.apex.fp16_utils.loss_scaler import DynamicLossScaler, LossScaler, to_python_float
from torch_npu.contrib.apex.fp16_utils.networks import (
    BN_convert_float,
    FP16Model,
    convert_module,
    convert_network,
    network_to_half,
    tofp16,
)
from torch_npu.contrib.apex.fp16_utils.params import (
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    prep_param_lists,
)

__all__ = [
    "BN_convert_float",
    "DynamicLossScaler",
    "FP16Model",
    "FP16_Optimizer",
    "LossScaler",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]
