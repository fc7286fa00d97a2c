"""Streams, events and facts about devices inside compiled functions: Dynamo knows torch.cuda's and torch.xpu's by name, and this
adds torch.npu's to the same tables. A function that is not in them ends the graph at the first builtin that it calls.
"""

import importlib.util
from typing import Any

# What has one answer while a program runs is a constant of the graph.
_CONSTANTS = ("get_device_properties", "get_device_name", "get_device_capability")
_IN_GRAPH = (*_CONSTANTS, "current_stream", "stream", "synchronize")


def register(dynamo: Any) -> None:
    """Adds torch.npu's names, once torch._dynamo is complete.

    Args:
        dynamo: the module torch._dynamo. Older ones, in which a stream in a graph has no home of its own, stay as they are.
    """
    if importlib.util.find_spec("torch._dynamo.variables.streams") is None:  # torch 2.9 and older
        return
    import torch
    from torch._dynamo import trace_rules, utils
    from torch._dynamo.variables import torch as functions, user_defined

    from torch_npu import _C

    npu = torch.npu
    rule = functions.TorchInGraphFunctionVariable
    # Of the table of names Dynamo makes that of functions, again after each init_process_group.
    functions_by_name = ((getattr(npu, name).__module__, getattr(npu, name).__qualname__) for name in _IN_GRAPH)
    trace_rules.torch_name_rule_map.append({".".join(name): rule for name in functions_by_name})
    trace_rules.get_torch_obj_rule_map.cache_clear()
    functions.constant_fold_functions.update(dict.fromkeys(getattr(npu, name) for name in _CONSTANTS))
    utils.common_constant_types.add(_C._NPUDeviceProperties)
    user_defined.UserDefinedClassVariable._in_graph_classes().update({npu.Stream, npu.Event})
    handlers = rule._get_handlers()
    handlers[npu.current_stream] = handlers[torch.accelerator.current_stream]
    handlers[npu.synchronize] = handlers[torch.accelerator.synchronize]
