"""torch.npu: NPUs in PyTorch, with the names and meaning of torch.cuda."""

import sys
from typing import Any, List

from torch import AcceleratorError, OutOfMemoryError

from torch_npu import _lazy
from torch_npu.npu import (
    _not_there,
    _state,
    _utils,
    amp,
    autocast,
    graphs,
    memory,
    overflow,
    random,
    settings,
    streams,
    types,
)
from torch_npu.npu._state import (
    init,
    is_in_bad_fork as _is_in_bad_fork,
    is_initialized,
    lazy_call as _lazy_call,
    lazy_init as _lazy_init,
)
from torch_npu.npu.autocast import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_npu.npu.device import (
    _architecture,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_blas_handle,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_soc_version,
    ipc_collect,
    is_available,
    is_bf16_supported,
    npurt,
    set_device,
    synchronize,
)
from torch_npu.npu.graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
)
from torch_npu.npu.memory import *  # noqa: F403
from torch_npu.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
    npu_check_overflow,
)
from torch_npu.npu.random import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
    get_default_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_npu.npu.settings import (
    _get_deterministic_level,
    are_compatible_impl_enabled,
    config,
    conv,
    get_mm_bmm_format_nd,
    get_option,
    get_sync_debug_mode,
    get_task_queue_enable,
    is_jit_compile_false,
    matmul,
    set_aoe,
    set_compile_mode,
    set_deterministic_level,
    set_mm_bmm_format_nd,
    set_option,
    set_sync_debug_mode,
    set_task_queue_enable,
    use_compatible_impl,
)
from torch_npu.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    Stream,
    StreamContext,
    SyncLaunchStream,
    _get_current_raw_stream,
    _launch_host_func,
    _set_stream_by_id,
    _sleep,
    _subscribe_report,
    _unsubscribe_report,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

globals().update(types.make_types())


def __dir__() -> List[str]:
    from torch_npu._published import names

    return _lazy.listing("torch_npu.npu", ("_initialized", "default_generators"), names.TORCH_NPU_NPU, names.NPU_MODULES)()


def __getattr__(name: str) -> Any:
    # These change at initialisation, so they are read where they live.
    if name == "_initialized":
        return _state.is_initialized()
    if name == "default_generators":
        return _state.default_generators
    from torch_npu._published import names

    if name in names.NPU_MODULES or name in names.TORCH_NPU_NPU:
        value = globals()[name] = names.find("torch_npu.npu", name, names.TORCH_NPU_NPU, names.NPU_MODULES)
        return value
    if f"torch_npu.npu.{name}" in sys.modules:   # a module of the published package that another one stands for
        return sys.modules[f"torch_npu.npu.{name}"]
    raise _not_there.error(name)
