"""Everything of torch that takes a device is known to torch_npu.contrib.transfer_to_npu: what a new torch adds is named here.

Each runs in a process of its own, as the import changes the process.
"""
import pytest

PRELUDE = """
import warnings
warnings.simplefilter("ignore")
import torch
from torch_npu.contrib import transfer_to_npu
from torch_npu.contrib.transfer_to_npu._replace import TRANSFERRED
"""

WALK = r"""
import importlib, inspect, re

PARAMETERS = set('''activities backend device device_id device_ids device_type device_types devices dl_device map_location
    output_device pin_memory_device src_device target_device'''.split())
MODULES = '''torch torch.accelerator torch.amp torch.autograd.profiler torch.compiler torch.distributed
    torch.distributed.device_mesh torch.distributed.fsdp torch.distributed.tensor torch.fft torch.futures torch.hub torch.jit
    torch.library torch.linalg torch.nested torch.nn.functional torch.nn.parallel torch.nn.utils torch.nn.utils.rnn
    torch.optim.swa_utils torch.profiler torch.random torch.serialization torch.signal.windows torch.sparse torch.special
    torch.testing torch.utils.checkpoint torch.utils.data torch.utils.dlpack'''.split()
# What they are given they hand to a function that is replaced, or to torch.device.
HAND_ON = set('''torch.from_dlpack torch.get_device_module torch.random.fork_rng torch.utils.data.DataLoader
    torch.hub.load_state_dict_from_url torch.jit.load torch.optim.swa_utils.AveragedModel
    torch.optim.swa_utils.update_bn torch.testing.make_tensor torch.utils.checkpoint.set_device_states
    torch.utils.dlpack.from_dlpack torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.data_parallel torch.nn.parallel.gather torch.nn.parallel.parallel_apply
    torch.nn.parallel.replicate torch.distributed.barrier torch.distributed.broadcast_object_list
    torch.distributed.recv_object_list torch.distributed.send_object_list
    torch.distributed.fsdp.FullyShardedDataParallel'''.split())
# Another meaning of the word: of the compiler, of RPC, of comparisons with a device, of a class that reports.
OTHER = set('''torch.autograd.profiler.FunctionEvent torch.autograd.profiler.profile torch.compile
    torch.compiler.set_default_backend torch.distributed.BackendConfig torch.distributed.get_backend_impl
    torch.futures.Future torch.jit.Future torch.eq torch.ne torch.Tensor.eq torch.Tensor.index torch.Tensor.ipu
    torch.Tensor.mtia torch.Tensor.ne torch.Tensor.xpu torch.autograd.profiler.Future torch.random.Generator
    torch.utils.checkpoint.Generator'''.split())

def takes_a_device(name, f):
    try:
        if inspect.isfunction(f) or inspect.isclass(f):
            return not PARAMETERS.isdisjoint(inspect.signature(f).parameters)
    except (TypeError, ValueError):   # a class written in C
        pass
    documented = isinstance(f.__doc__, str) and re.search(r'device \(:class:|device=None', f.__doc__) is not None
    return documented or name.rpartition('.')[2] in schemas

def is_known(name, f):
    if name in HAND_ON or name in OTHER or name.endswith('Storage') or f in TRANSFERRED or f is torch.Tensor.npu:
        return True
    if str(getattr(f, '__module__', None)).startswith(('torch.accelerator', 'torch.signal.windows')):   # they hand it on as well
        return True
    return inspect.isclass(f) and f.__init__ in TRANSFERRED

schemas = {schema.name[len('aten::'):] for schema in torch._C._jit_get_all_schemas()
           if any('Device' in str(argument.type) for argument in schema.arguments)}
unknown, seen = [], 0
for module in MODULES + ['torch.Tensor']:
    owner = torch.Tensor if module == 'torch.Tensor' else importlib.import_module(module)
    for name in dir(owner):
        f = getattr(owner, name)
        full = f'{module}.{name}'
        if name.startswith('_') or not callable(f) or not takes_a_device(full, f):
            continue
        seen += 1
        if not is_known(full, f):
            unknown.append(full)
assert seen > 100, seen
assert not unknown, unknown
"""

CUDA = r"""
import importlib, inspect, pkgutil

# Of CUDA alone: they stay, and say so when they are called. profiler.profile and nvtx.range call what is ignored.
MODULES = ('gds', 'graph_annotations', 'green_contexts', 'jiterator', 'nccl', 'sparse', 'tunable')
NAMES = set('''CudaError DeferredCudaCallError GreenContext amp_definitely_not_available cudaStatus
    current_solver_handle export_dot export_graph_data get_arch_list get_gencode_flags
    is_tf32_supported list_gpu_processes profile range'''.split())
modules = [torch.cuda] + [importlib.import_module(m.name) for m in pkgutil.iter_modules(torch.cuda.__path__, 'torch.cuda.')
                          if not m.name.rpartition('.')[2].startswith('_') and m.name.rpartition('.')[2] not in MODULES]
unknown, seen = [], 0
for module in modules:
    for name in getattr(module, '__all__', None) or dir(module):
        f = getattr(module, name, None)
        if name.startswith('_') or not callable(f) or not str(getattr(f, '__module__', '')).startswith('torch.cuda'):
            continue
        seen += 1
        if f not in TRANSFERRED and name not in NAMES:
            unknown.append(f'{module.__name__}.{name}')
assert not unknown, unknown
assert torch.cuda.memory_allocated is torch.cuda.memory.memory_allocated is torch.npu.memory_allocated
"""

# How each creation function is called; those that are not here are called without arguments or are private.
FACTORIES = r"""
from torch_npu.contrib.transfer_to_npu._devices import FACTORIES

x, size, compressed = torch.ones(2), (2,), ([0, 1, 2], [0, 1], [1.0, 2.0])
blocks = ([0, 1], [0], [[[1.0]]])
ARGUMENTS = {
    'arange': (3,), 'asarray': ([1.0],), 'as_tensor': ([1.0],), 'bartlett_window': (3,), 'blackman_window': (3,), 'empty': (2,),
    'empty_like': (x,), 'empty_permuted': (size, (0,)), 'empty_strided': (size, (1,)), 'eye': (2,), 'full': (size, 1.0),
    'full_like': (x, 1.0), 'hamming_window': (3,), 'hann_window': (3,), 'kaiser_window': (3,), 'linspace': (0, 1, 3),
    'logspace': (0, 1, 3), 'normal': (0.0, 1.0, size), 'ones': (2,), 'ones_like': (x,), 'rand': (2,), 'rand_like': (x,),
    'randint': (3, size), 'randint_like': (x, 3), 'randn': (2,), 'randn_like': (x,), 'randperm': (3,), 'range': (0, 3),
    'scalar_tensor': (1.0,), 'sparse_compressed_tensor': compressed, 'sparse_coo_tensor': ([[0, 1]], [1.0, 2.0], size),
    'sparse_csr_tensor': compressed, 'sparse_csc_tensor': compressed, 'sparse_bsr_tensor': blocks, 'sparse_bsc_tensor': blocks,
    'tensor': ([1.0],), 'tril_indices': (2, 2), 'triu_indices': (2, 2), 'zeros': (2,), 'zeros_like': (x,),
}
for name in set(FACTORIES) & set(ARGUMENTS):
    options = {'layout': torch.sparse_csr} if name == 'sparse_compressed_tensor' else {}
    for device in ('cuda', 'cuda:0', torch.device('cuda', 0)):
        try:
            made = getattr(torch, name)(*ARGUMENTS[name], device=device, **options)
        except RuntimeError as error:   # what the NPU does not have, it says of the NPU
            assert 'cuda' not in str(error).lower(), (name, error)
            continue
        assert made.device == torch.device('npu', 0), name
missing = {name for name in FACTORIES if not name.startswith('_') and hasattr(torch, name)} - set(ARGUMENTS)
assert missing <= {'empty_quantized', 'from_file', 'frombuffer'}, missing
x = torch.ones(2)
for made in (x.new_empty((2,), device='cuda'), x.new_empty_strided((2,), (1,), device='cuda'), x.new_full((2,), 1, device='cuda'),
             x.new_ones((2,), device='cuda'), x.new_tensor([1], device='cuda'),
             x.new_zeros((2,), device='cuda'), x.to('cuda'), x.to(device='cuda:0'), x.to('cuda', torch.half), x.cuda()):
    assert made.is_cuda
assert torch.frombuffer(bytearray(8), dtype=torch.uint8).device.type == 'cpu'
"""


@pytest.mark.parametrize("script", [WALK, CUDA, FACTORIES], ids=["callables", "torch.cuda", "factories"])
def test_all_that_takes_a_device(python, script):
    done = python(PRELUDE + script)
    assert done.returncode == 0, done.stderr[-3000:]
