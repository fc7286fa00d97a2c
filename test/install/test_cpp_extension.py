"""C++ outside of this project, as its authors would build it: the two examples."""
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

from torch_npu.utils import cpp_extension

ROOT = pathlib.Path(__file__).resolve().parents[2]

USE = """
import torch, torch_npu, npu_axpy
axpy = torch.ops.npu_axpy.axpy
x, y = torch.randn(5, 3), torch.randn(5, 3)
on_npu = [t.npu().requires_grad_() for t in (x, y)]
out = axpy(2.5, *on_npu)
torch.testing.assert_close(out.cpu(), y + 2.5 * x)
out.sum().backward()
torch.testing.assert_close(on_npu[0].grad.cpu(), torch.full((5, 3), 2.5))
torch.testing.assert_close(on_npu[1].grad.cpu(), torch.ones(5, 3))
try:
    axpy(1.0, x.npu(), y[:2].npu())
except RuntimeError as error:
    assert "must agree" in str(error), error
else:
    raise AssertionError("wrong shapes were accepted")
assert not torch_npu.fallbacks(), torch_npu.fallbacks()
print("the extension works")
"""


def run(*command, cwd):
    """Output of a command; the test fails with its messages where it does."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode()[-4000:]
    return done.stdout.decode()


def test_extension_builds_and_runs(tmp_path):
    folder = tmp_path / "cpp_extension"
    shutil.copytree(ROOT / "examples" / "cpp_extension", folder)
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=folder)
    assert "the extension works" in run(sys.executable, "-c", USE, cwd=folder)


@pytest.mark.slow
def test_libtorch_program_builds_and_runs(tmp_path):
    import torch_npu
    packages = pathlib.Path(torch.__file__).parent
    cmake = shutil.which("cmake", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("cmake")
    run(cmake, "-S", ROOT / "examples" / "libtorch", "-B", tmp_path, f"-DTORCH_DIR={packages}",
        f"-DTORCH_NPU_DIR={pathlib.Path(torch_npu.__file__).parent}", cwd=tmp_path)
    run(cmake, "--build", tmp_path, cwd=tmp_path)
    assert "x + 2.0" in run(tmp_path / "train", cwd=tmp_path)


def test_installed_headers_name_nothing_but_the_contract():
    """softcann is not the adapter's business, and a header outside of the package would be missing elsewhere."""
    root = pathlib.Path(cpp_extension.include_paths()[0])
    folders = [pathlib.Path(path) for path in cpp_extension.include_paths()]
    for header in root.rglob("*.h"):
        text = header.read_text()
        assert "softcann" not in text, header
        for line in text.splitlines():
            if line.startswith('#include "'):
                name = line.split('"')[1]
                assert any((folder / name).is_file() for folder in [*folders, header.parent]), f"{header}: {name}"


PUBLISHED = """
import os, sys
import torch, torch_npu
from torch.utils.cpp_extension import load

package = os.path.dirname(torch_npu.__file__)
x = torch.randn(3, 4, device="npu")   # the libraries of CANN are open then, and the extension needs no path to them
load("published_extension", [sys.argv[1]], is_python_module=False, build_directory=os.getcwd(), extra_cflags=["-O1"],
     extra_include_paths=[f"{package}/include", f"{package}/include/third_party/acl/inc"],
     extra_ldflags=[f"-L{package}/lib", "-ltorch_npu", "-lascendcl"])
ops = torch.ops.published_extension
copy = ops.copy_of(x)
assert torch.equal(copy.cpu(), x.cpu()) and copy.data_ptr() != x.data_ptr()
assert ops.streams_agree()
assert ops.secondary_stream_is_waited_for()
assert ops.events_and_memory_agree(x)
assert ops.draws(7) == [7, 0, 12]
assert ops.format_and_type(x.half()) == 2 * 100 + 1   # ACL_FORMAT_ND, ACL_FLOAT16
half, float32 = 5, 6   # at::ScalarType
shapes = lambda *sizes: [list(each) for each in sizes]
nd, nchw, nz = 2, 0, 29   # aclFormat
assert ops.description(x) == [[nd, nd, float32], *shapes((3, 4), (4, 1), (3, 4))]
assert ops.description(x[1:, 2:]) == ops.description(x)   # the memory's, not the view's
assert ops.description(torch.empty(2, 3, 4, 5, device="npu").half()) == [[nchw, nchw, half], *shapes((2, 3, 4, 5), (60, 20, 5, 1), (2, 3, 4, 5))]
assert ops.description(torch.empty_strided((2, 3), (1, 4), device="npu"))[1:] == shapes((2, 3), (1, 4), (2, 3))
assert ops.description(torch.empty(2, 3, device="npu").resize_(5, 7))[1:] == shapes((35,), (1,), (35,))
assert ops.description(torch.tensor([1.0], device="npu").set_())[1:] == shapes((0,), (1,), (0,))
byte = torch.empty(0, dtype=torch.uint8, device="npu").set_(torch.UntypedStorage(12, device="npu"))
assert ops.description(byte) == [[nd, nd, 0], *shapes((12,), (1,), (12,))]
rest = ops.borrowed(x.flatten())
assert torch.equal(rest.cpu(), x.cpu().flatten()[1:]) and ops.description(rest)[1:] == shapes((11,), (1,), (11,))
weak = torch_npu._C._weak_ref_tensor(x)
assert torch.equal(weak.cpu(), x.cpu()) and ops.description(weak) == ops.description(x)
torch.npu.config.allow_internal_format = True
blocked = torch_npu.npu_format_cast(torch.randn(20, 40, device="npu").half(), nz)
assert ops.description(blocked) == [[nd, nz, half], *shapes((20, 40), (40, 1), (3, 2, 16, 16))]
assert ops.description(blocked.clone())[0] == [nd, nz, half]
for written in (torch_npu.npu_format_cast(blocked, nd), blocked.mul_(2)):
    assert ops.description(written) == [[nd, nd, half], *shapes((20, 40), (40, 1), (20, 40))], ops.description(written)
torch.save(torch_npu.npu_format_cast(blocked, nz), "saved.pt")
assert ops.description(torch.load("saved.pt"))[0] == [nd, nz, half]
copied, swish, norm, kept = (y.cpu() for y in ops.by_name(x))
assert kept.tolist() == [2]
torch.testing.assert_close(copied, x.cpu())
torch.testing.assert_close(swish, (x * (2 * x).sigmoid()).cpu())
torch.testing.assert_close(norm, x.cpu().square().sum(1))
for wrong, part in ((lambda: ops.copy_of(x.cpu()), "of the NPU"), (ops.fail, "a_name"), (lambda: ops.refused_name(x), "NobodysOperator")):
    try:
        wrong()
    except RuntimeError as error:
        assert part in str(error), error
    else:
        raise AssertionError(part)
print("the published names work")
"""


def test_extension_for_the_published_torch_npu(tmp_path, monkeypatch):
    """As its own build would: by the published headers' paths and names, linked to CANN, which is found without any setting."""
    for name in ("LIBRARY_PATH", "LD_LIBRARY_PATH", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    source = pathlib.Path(__file__).with_name("published_extension.cpp")
    assert "the published names work" in run(sys.executable, "-c", PUBLISHED, source, cwd=tmp_path)


def test_missing_headers_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(cpp_extension, "_PACKAGE", tmp_path)
    with pytest.raises(RuntimeError, match="install torch_npu again"):
        cpp_extension.NpuExtension("x", ["x.cpp"])
