"""What the host's half of Ascend C kernels and operators needs: device binaries, libc_sec, libmmpa, libascendalog, libplatform, libruntime."""
import ctypes
import errno
import os
import shutil
import struct
import subprocess
import threading

import pytest
from acl_tools import LIBRARIES, run_program

INVALID, UNSUPPORTED, REFUSED = 107000, 207000, 161002
EMPTIED = 128


def library(name):
    return ctypes.CDLL(str(LIBRARIES / f"lib{name}.so"))


def device_binary(*kernels, meta=None):
    """An ELF file of 64 bits for another machine, with these functions, and a section about the first of them."""
    names = b"\0" + b"".join(k.encode() + b"\0" for k in kernels)
    symbols = bytes(24)
    for kernel in kernels:
        symbols += struct.pack("<IBBHQQ", names.index(b"\0" + kernel.encode() + b"\0") + 1, 0x12, 0, 1, 0, 4)
    contents = [("", 0, b""), (".text", 1, bytes(8)), (".symtab", 2, symbols), (".strtab", 3, names)]
    if meta is not None:
        contents.append((f".ascend.meta.{kernels[0]}", 1, meta))
    contents.append((".shstrtab", 3, b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in contents[1:]) + b".shstrtab\0"))
    labels, data, heads = contents[-1][2], b"", []
    for name, kind, content in contents:
        label = labels.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        heads.append(struct.pack("<IIQQQQIIQQ", label, kind, 0, 0, 64 + len(data), len(content), 3, 1, 1, 24 if kind == 2 else 0))
        data += content
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 0x1029, 1, 0, 0, 64 + len(data), 0, 64, 56, 0, 64, len(heads), len(heads) - 1)
    return head + data + b"".join(heads)


def loaded(cann, image):
    handle = ctypes.c_void_p()
    assert cann.aclrtBinaryLoadFromData(image, ctypes.c_size_t(len(image)), None, ctypes.byref(handle)) == 0
    return handle


def function(cann, binary, name):
    handle = ctypes.c_void_p()
    code = cann.aclrtBinaryGetFunction(binary, name, ctypes.byref(handle))
    return handle if code == 0 else code


def test_kernels_are_found_by_name_and_by_tiling_key(acl):
    cann = library("ascendcl")
    binary = loaded(cann, device_binary("add_custom", "mix_7_mix_aic", "mix_7_mix_aiv"))
    assert function(cann, binary, b"add_custom").value == function(cann, binary, b"add_custom").value
    assert function(cann, binary, b"mul_custom") == INVALID
    assert "no kernel 'mul_custom'; it has add_custom, mix_7_mix_aic, mix_7_mix_aiv" in acl.get_recent_err_msg()
    found, back, name = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(32)
    assert cann.aclrtBinaryGetFunctionByEntry(binary, ctypes.c_uint64(7), ctypes.byref(found)) == 0
    assert cann.aclrtGetFunctionName(found, 32, name) == 0 and name.value == b"mix_7_mix_aic"
    assert cann.aclrtGetFunctionName(found, 5, name) == INVALID
    assert cann.aclrtFunctionGetBinary(found, ctypes.byref(back)) == 0 and back.value == binary.value
    assert cann.aclrtBinaryGetFunctionByEntry(binary, ctypes.c_uint64(8), ctypes.byref(found)) == INVALID
    assert cann.aclrtBinaryUnLoad(binary) == 0
    assert cann.aclrtBinaryUnLoad(binary) == INVALID and function(cann, binary, b"add_custom") == INVALID
    assert cann.aclrtGetFunctionName(found, 32, name) == INVALID


def test_binaries_from_files_and_in_two_steps(acl, tmp_path):
    cann, handle = library("ascendcl"), ctypes.c_void_p()
    image = device_binary("add_custom")
    (tmp_path / "k.o").write_bytes(image)
    assert cann.aclrtBinaryLoadFromFile(str(tmp_path / "k.o").encode(), None, ctypes.byref(handle)) == 0
    assert isinstance(function(cann, handle, b"add_custom"), ctypes.c_void_p)
    assert cann.aclrtBinaryLoadFromFile(str(tmp_path / "none.o").encode(), None, ctypes.byref(handle)) == 100003
    cann.aclrtCreateBinary.restype = ctypes.c_void_p
    made = ctypes.c_void_p(cann.aclrtCreateBinary(image, ctypes.c_size_t(len(image))))
    assert cann.aclrtBinaryLoad(made, ctypes.byref(handle)) == 0 and isinstance(function(cann, handle, b"add_custom"), ctypes.c_void_p)
    assert cann.aclrtDestroyBinary(made) == 0 and cann.aclrtDestroyBinary(made) != 0


def test_files_that_are_no_binaries(acl):
    cann, handle, image = library("ascendcl"), ctypes.c_void_p(), device_binary("add_custom")
    for bad in (b"", b"text", image[:63], image[:100], image[:4] + b"\1" + image[5:]):
        assert cann.aclrtBinaryLoadFromData(bad, ctypes.c_size_t(len(bad)), None, ctypes.byref(handle)) == INVALID
        assert "no ELF file" in acl.get_recent_err_msg()
    # One byte of it changed: whatever comes of it, nothing is read outside.
    for place in range(40, len(image)):
        broken = image[:place] + b"\xff" + image[place + 1:]
        if cann.aclrtBinaryLoadFromData(broken, ctypes.c_size_t(len(broken)), None, ctypes.byref(handle)) == 0:
            function(cann, handle, b"add_custom")
            assert cann.aclrtBinaryUnLoad(handle) == 0


def test_a_launch_is_refused_and_the_stream_tells_it_once(acl):
    cann = library("ascendcl")
    kernel = function(cann, loaded(cann, device_binary("add_custom")), b"add_custom")
    stream, ret = acl.rt.create_stream()
    assert ret == 0
    for launch in (lambda: cann.aclrtLaunchKernelWithHostArgs(kernel, 2, ctypes.c_void_p(stream), None, None, 0, None, 0),
                   lambda: cann.aclrtLaunchKernel(kernel, 2, None, 0, ctypes.c_void_p(stream))):
        assert launch() == UNSUPPORTED and "kernel 'add_custom'" in acl.get_recent_err_msg()
        assert acl.rt.synchronize_stream(stream) == REFUSED and "kernel 'add_custom'" in acl.get_recent_err_msg()
        assert acl.rt.synchronize_stream(stream) == 0
    assert cann.aclrtLaunchKernel(None, 2, None, 0, ctypes.c_void_p(stream)) == INVALID
    assert acl.rt.synchronize_stream(stream) == 0 and acl.rt.destroy_stream(stream) == 0


def test_arguments_of_a_launch(acl):
    cann = library("ascendcl")
    kernel = function(cann, loaded(cann, device_binary("add_custom")), b"add_custom")
    arguments, piece, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64(7)
    assert cann.aclrtKernelArgsInit(kernel, ctypes.byref(arguments)) == 0
    assert cann.aclrtKernelArgsAppend(arguments, ctypes.byref(value), ctypes.c_size_t(8), ctypes.byref(piece)) == 0
    assert cann.aclrtKernelArgsParaUpdate(arguments, piece, ctypes.byref(value), ctypes.c_size_t(8)) == 0
    assert cann.aclrtKernelArgsParaUpdate(arguments, piece, ctypes.byref(value), ctypes.c_size_t(4)) == INVALID
    assert cann.aclrtLaunchKernelWithConfig(kernel, 1, None, None, arguments, None) == INVALID   # not final yet
    assert cann.aclrtKernelArgsFinalize(arguments) == 0
    assert cann.aclrtKernelArgsAppend(arguments, ctypes.byref(value), ctypes.c_size_t(8), ctypes.byref(piece)) == INVALID
    assert cann.aclrtLaunchKernelWithConfig(kernel, 1, None, None, arguments, None) == UNSUPPORTED
    assert acl.rt.synchronize_stream(0) == REFUSED


def test_arguments_with_place_holders(acl):
    """In memory of softcann's, and in memory of the client's own, where they can be looked at."""
    cann = library("ascendcl")
    kernel = function(cann, loaded(cann, device_binary("add_custom")), b"add_custom")
    size, handle_size = ctypes.c_size_t(), ctypes.c_size_t()
    assert cann.aclrtKernelArgsGetHandleMemSize(kernel, ctypes.byref(handle_size)) == 0 < handle_size.value
    assert cann.aclrtKernelArgsGetMemSize(kernel, ctypes.c_size_t(4 + 8 + 16), ctypes.byref(size)) == 0 and size.value == 32
    memory, of_handle = (ctypes.c_uint64 * 4)(), ctypes.create_string_buffer(handle_size.value)
    own = ctypes.cast(of_handle, ctypes.c_void_p)
    made, piece, buffer, again, value = *(ctypes.c_void_p() for _ in range(4)), ctypes.c_uint32(5)
    assert cann.aclrtKernelArgsInit(kernel, ctypes.byref(made)) == 0
    assert cann.aclrtKernelArgsInitByUserMem(kernel, own, memory, ctypes.c_size_t(32)) == 0
    for arguments in (own, made):
        place = ctypes.c_void_p()
        assert cann.aclrtKernelArgsAppend(arguments, ctypes.byref(value), ctypes.c_size_t(4), ctypes.byref(piece)) == 0
        assert cann.aclrtKernelArgsAppendPlaceHolder(arguments, ctypes.byref(place)) == 0
        get = cann.aclrtKernelArgsGetPlaceHolderBuffer
        assert get(arguments, piece, ctypes.c_size_t(16), ctypes.byref(buffer)) == INVALID   # no place holder
        assert get(arguments, place, ctypes.c_size_t(16), ctypes.byref(buffer)) == 0
        ctypes.memmove(buffer, b"sixteen bytes...", 16)
        assert get(arguments, place, ctypes.c_size_t(16), ctypes.byref(again)) == 0 and again.value == buffer.value
        assert get(arguments, place, ctypes.c_size_t(8), ctypes.byref(again)) == INVALID
        assert cann.aclrtKernelArgsParaUpdate(arguments, place, ctypes.byref(value), ctypes.c_size_t(8)) == INVALID
        if arguments is own:
            assert bytes(memory)[:4] == struct.pack("<I", 5) and memory[1] == buffer.value == ctypes.addressof(memory) + 16
            assert bytes(memory)[16:] == b"sixteen bytes..."
            assert cann.aclrtKernelArgsAppend(arguments, ctypes.byref(value), ctypes.c_size_t(4), ctypes.byref(piece)) == INVALID   # full
        assert cann.aclrtKernelArgsFinalize(arguments) == 0
        assert cann.aclrtLaunchKernelWithConfig(kernel, 1, None, None, arguments, None) == UNSUPPORTED
        assert cann.aclrtKernelArgsFinalize(arguments) == INVALID and acl.rt.synchronize_stream(0) == REFUSED   # the launch took them
    assert cann.aclrtLaunchKernelWithArgsArray(kernel, 1, None, None, None) == UNSUPPORTED and acl.rt.synchronize_stream(0) == REFUSED


def test_what_the_compiler_says_of_a_kernel(acl):
    cann = library("runtime")   # CANN's name for it; it leads on to libascendcl
    meta = struct.pack("<HHI", 1, 4, 3) + struct.pack("<HHHH", 3, 4, 1, 2)
    kernel = function(cann, loaded(cann, device_binary("add_custom", meta=meta)), b"add_custom")
    size, data = ctypes.c_size_t(), (ctypes.c_uint16 * 2)()
    assert cann.rtFunctionGetMetaInfoSize(kernel, 3, ctypes.byref(size)) == 0 and size.value == 4
    assert cann.rtFunctionGetMetaInfo(kernel, 3, data, 4) == 0 and list(data) == [1, 2]
    assert cann.rtFunctionGetMetaInfo(kernel, 3, data, 2) == INVALID and cann.rtFunctionGetMetaInfo(kernel, 9, data, 4) == INVALID
    name = ctypes.create_string_buffer(32)
    assert cann.rtGetSocVersion(name, 32) == 0 and name.value.decode() == acl.get_soc_name()
    assert cann.rtGetSocVersion(name, 4) == INVALID


def test_streams_are_told_of_as_they_come_and_go(acl):
    cann, seen = library("ascendcl"), []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda stream, state, argument: seen.append((stream, state, argument)))
    assert cann.aclrtRegStreamStateCallback(b"test", callback, ctypes.c_void_p(9)) == 0
    stream, _ = acl.rt.create_stream()
    acl.rt.destroy_stream(stream)
    assert cann.aclrtRegStreamStateCallback(b"test", None, None) == 0
    other, _ = acl.rt.create_stream()
    acl.rt.destroy_stream(other)
    assert seen == [(stream, 1, 9), (stream, 2, 9)]
    assert cann.aclrtRegStreamStateCallback(b"test", None, None) != 0


def test_copies_of_rows(acl):
    cann = library("ascendcl")
    host, back = (ctypes.c_ubyte * 32)(*range(32)), (ctypes.c_ubyte * 32)()
    device, _ = acl.rt.malloc(32, 0)
    size = ctypes.c_size_t
    assert cann.aclrtMemcpy2d(ctypes.c_void_p(device), size(4), host, size(8), size(3), size(4), 1) == 0
    assert cann.aclrtMemcpy2dAsync(back, size(8), ctypes.c_void_p(device), size(4), size(3), size(4), 2, None) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert [list(back[row * 8:row * 8 + 4]) for row in range(4)] == [[8 * row, 8 * row + 1, 8 * row + 2, 0] for row in range(4)]
    assert cann.aclrtMemcpy2d(ctypes.c_void_p(device), size(2), host, size(8), size(3), size(4), 1) != 0   # rows longer than the pitch
    assert cann.aclrtMemcpy2d(ctypes.c_void_p(device), size(1 << 24), host, size(8), size(3), size(4), 1) != 0   # past the allocation
    assert acl.rt.free(device) == 0


def test_copies_that_know_their_room():
    sec, size = library("c_sec"), ctypes.c_size_t
    room = ctypes.create_string_buffer(b"abcdefg", 8)
    assert sec.memcpy_s(room, size(8), b"xyz", size(3)) == 0 and room.raw == b"xyzdefg\0"
    assert sec.memcpy_s(room, size(2), b"xyz", size(3)) == errno.ERANGE + EMPTIED and room.raw == b"\0\0zdefg\0"
    assert sec.memcpy_s(room, size(8), None, size(3)) == errno.EINVAL + EMPTIED and room.raw == bytes(8)
    assert sec.memcpy_s(None, size(8), b"xyz", size(3)) == errno.EINVAL and sec.memcpy_s(room, size(0), b"xyz", size(3)) == errno.ERANGE
    room.raw = b"abcdefg\0"
    assert sec.memcpy_s(room, size(8), ctypes.byref(room, 2), size(4)) == 54 + EMPTIED and room.raw == bytes(8)
    room.raw = b"abcdefg\0"
    assert sec.memmove_s(room, size(8), ctypes.byref(room, 2), size(4)) == 0 and room.raw == b"cdefefg\0"
    assert sec.memset_s(room, size(8), 65, size(9)) == errno.ERANGE + EMPTIED and room.raw == b"A" * 8


def test_texts_that_know_their_room():
    sec, size = library("c_sec"), ctypes.c_size_t
    room = ctypes.create_string_buffer(8)
    assert sec.strcpy_s(room, size(8), b"abcdefg") == 0 and room.value == b"abcdefg"
    assert sec.strcpy_s(room, size(7), b"abcdefg") == errno.ERANGE + EMPTIED and room.value == b""
    assert sec.strncpy_s(room, size(8), b"abcdefghijk", size(3)) == 0 and room.value == b"abc"
    assert sec.strcat_s(room, size(8), b"defg") == 0 and room.value == b"abcdefg"
    assert sec.strncat_s(room, size(8), b"x", size(1)) == errno.ERANGE + EMPTIED and room.value == b""
    assert sec.sprintf_s(room, size(8), b"%d-%s", 12, b"ab") == 5 and room.value == b"12-ab"
    assert sec.sprintf_s(room, size(4), b"%d", 1234) == -1 and room.value == b""
    assert sec.snprintf_s(room, size(8), size(3), b"%s", b"abcdef") == -1 and room.value == b"abc"


def test_calls_of_the_system():
    mmpa = library("mmpa")
    assert mmpa.mmGetTid() == threading.get_native_id()
    path = ctypes.create_string_buffer(4096)
    assert mmpa.mmRealPath(b"/usr/../tmp", path, 4096) == 0 and path.value == os.path.realpath("/tmp").encode()
    assert mmpa.mmRealPath(b"/tmp", path, 10) == -2 and mmpa.mmRealPath(b"/no/such", path, 4096) == -1
    mmpa.mmGetErrorFormatMessage.restype = ctypes.c_char_p
    assert mmpa.mmGetErrorFormatMessage(errno.ENOENT, path, ctypes.c_size_t(64)) == os.strerror(errno.ENOENT).encode()


LOGGING = f"""
import ctypes
log = ctypes.CDLL({str(LIBRARIES / "libunified_dlog.so")!r})
print(log.CheckLogLevel(63, 1), log.CheckLogLevel(63, 0), flush=True)
log.DlogRecord(63, 1, b"[%s:%d]tiled", b"tiling.cpp", 5)
log.DlogRecord(63, 0, b"unwanted")
"""


def test_lines_of_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "1")
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    (tmp_path / "program.py").write_text(LOGGING)
    result = run_program(tmp_path, "program.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("1 0\n") and "[INFO] OP(" in result.stdout and "[tiling.cpp:5]tiled" in result.stdout
    assert "unwanted" not in result.stdout


PLATFORM = """
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
namespace fe {
enum class LocalMemType { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
class PlatFormInfosImpl;
class PlatFormInfos {
 public:
  bool GetPlatformResWithLock(const std::string&, const std::string&, std::string&);
  void SetCoreNumByCoreType(const std::string&);
  uint32_t GetCoreNum() const;
  void GetLocalMemSize(const LocalMemType&, uint64_t&);
 private:
  uint32_t cores = 0;
  std::shared_ptr<PlatFormInfosImpl> impl;
};
class PlatformInfoManager {
 public:
  static PlatformInfoManager& Instance();
  uint32_t InitRuntimePlatformInfos(const std::string&);
  uint32_t GetRuntimePlatformInfosByDevice(const uint32_t&, PlatFormInfos&, bool);
};
}
int main() {
  auto& manager = fe::PlatformInfoManager::Instance();
  fe::PlatFormInfos infos;
  std::printf("%u ", manager.GetRuntimePlatformInfosByDevice(0, infos, true));
  std::printf("%u ", manager.InitRuntimePlatformInfos("Ascend123"));
  std::printf("%u ", manager.InitRuntimePlatformInfos("Ascend910B3"));
  std::printf("%u ", manager.GetRuntimePlatformInfosByDevice(0, infos, true));
  infos.SetCoreNumByCoreType("VectorCore");
  uint64_t ub = 0, l1 = 0;
  infos.GetLocalMemSize(fe::LocalMemType::UB, ub);
  infos.GetLocalMemSize(fe::LocalMemType::L1, l1);
  std::string family, cores, none;
  infos.GetPlatformResWithLock("version", "Short_SoC_version", family);
  infos.GetPlatformResWithLock("SoCInfo", "cube_core_cnt", cores);
  std::printf("%u %lu %lu %s %s %d", infos.GetCoreNum(), ub, l1, family.c_str(), cores.c_str(),
              infos.GetPlatformResWithLock("SoCInfo", "none", none));
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_what_operators_ask_about_the_chip(tmp_path):
    (tmp_path / "p.cpp").write_text(PLATFORM)
    subprocess.run(["g++", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", "p.cpp", "-o", "p", f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-lplatform"],
                   cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=True).stdout == "1 1 0 0 40 196608 524288 Ascend910B 20 0"


def test_libraries_that_clients_name_are_there():
    for name in ("register", "error_manager", "ge_common_base", "ascend_dump", "op_common", "profapi"):
        library(name)


def test_methods_of_the_classes_behind_handles(acl):
    pytest.importorskip("torch")   # loads what libopapi is linked with
    base, library_of = library("nnopbase"), library("opapi")
    library_of.aclCreateScalar.restype = library_of.aclCreateIntArray.restype = ctypes.c_void_p
    value = ctypes.c_int32(-7)
    scalar = ctypes.c_void_p(library_of.aclCreateScalar(ctypes.byref(value), 3))
    data, number = base["_ZNK9aclScalar7GetDataEv"], base["_ZNK9aclScalar7ToFloatEv"]
    data.restype, number.restype = ctypes.POINTER(ctypes.c_int32), ctypes.c_float
    assert data(scalar)[0] == -7 and number(scalar) == -7.0 and base["_ZNK9aclScalar11GetDataTypeEv"](scalar) == 3
    assert library_of.aclDestroyScalar(scalar) == 0 and not data(scalar)
    array = ctypes.c_void_p(library_of.aclCreateIntArray((ctypes.c_int64 * 2)(5, 6), ctypes.c_uint64(2)))
    numbers = base["_ZNK8aclArrayIlE7GetDataEv"]
    numbers.restype = ctypes.POINTER(ctypes.c_int64)
    assert numbers(array)[:2] == [5, 6] and base["_ZNK9aclScalar8ToStringEv"]
    assert library_of.aclDestroyIntArray(array) == 0
