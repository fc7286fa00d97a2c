#!/usr/bin/env bash
# Builds the wheel for aarch64, which most hosts of NPUs are, with a cross compiler, and tests it in QEMU, in an arm64 Debian of its own.
#   bash ci/check_aarch64.sh [--jobs=N] [PYTEST-ARGUMENT...]      default: test/npu_ops/test_storage_formats.py and others, below
# For x86-64 and root: takes debootstrap, qemu-user-static and g++-12-aarch64-linux-gnu from Debian. All is kept in build/aarch64;
# the wheel goes to dist/. QEMU takes some twenty times as long as a processor, and orders memory as the host does: what only a weaker
# order shows stays unseen.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

torch=2.9.1   # of torch's wheels for aarch64 the last that needs no CUDA
here=$PWD/build/aarch64
tests=(test/test_network_ops test/npu_ops/test_storage_formats.py test/npu/test_stream.py)
modules=(numpy pytest pyyaml expecttest typing_extensions filelock sympy mpmath jinja2 markupsafe networkx fsspec pluggy iniconfig packaging pygments)
given=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,6s/^# \?//p' ci/check_aarch64.sh; exit ;;
    --jobs=*) export MAX_JOBS=${argument#*=} ;;
    *) given+=("$argument") ;;
  esac
done
if ((${#given[@]})); then tests=("${given[@]}"); fi
[[ $(uname -m) == x86_64 && $EUID == 0 ]] || die "this checks aarch64 from x86-64, as root"
python=$(find_python 3.11)
venv=build/venv-py3.11
make_venv "$venv" "$python"
once "$venv" build "$(cat requirements.txt)" pip_install "$venv" -r requirements.txt
mkdir -p "$here"

debian_packages() {
  say "installing debootstrap, QEMU and a cross compiler"
  apt-get install -qq -y debootstrap qemu-user-static g++-12-aarch64-linux-gnu > /dev/null
}
command -v debootstrap qemu-aarch64-static aarch64-linux-gnu-g++-12 > /dev/null || debian_packages
# The kernel hands programs for aarch64 to QEMU. F: the emulator is opened now, and need not be inside of the other root.
binfmt=/proc/sys/fs/binfmt_misc
[[ -e $binfmt/register ]] || mount -t binfmt_misc none "$binfmt"
if [[ ! -e $binfmt/qemu-aarch64 ]]; then
  magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  echo ":qemu-aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):F" > "$binfmt/register"
fi

other_root() {
  say "making an arm64 Debian"
  unshare -m debootstrap --arch=arm64 --variant=minbase --include=python3,libgomp1,libatomic1,git bookworm "$here/root" > "$here/debootstrap.log"
}
once "$here" root bookworm other_root
# fetch FOLDER MODULE...: Python modules for aarch64.
fetch() {
  local folder=$1; shift
  pip_install "$venv" --upgrade --target "$folder" --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 "$@"
}
once "$here" torch "$torch" fetch "$here/torch" "torch==$torch"
once "$here" modules "${modules[*]}" fetch "$here/site" "${modules[@]}"

say "building the wheel"
export PYTHONPATH=$here/torch TORCH_NPU_BUILD_DIR=$here/objects
export TORCH_NPU_CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++-12
  -DPYTHON_EXT_SUFFIX=.cpython-311-aarch64-linux-gnu.so '-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$PWD/='"
rm -rf "$here/wheel"
build_wheel "$PWD/$venv/bin/python" . "$here/stage" "$here/wheel" --plat-name linux_aarch64
unset PYTHONPATH
mkdir -p dist && cp "$here"/wheel/*.whl dist/
rm -rf "$here/tree"
git clone -q . "$here/tree"
rm -rf "$here/tree/torch_npu"
"$venv/bin/python" -m zipfile -e "$here"/wheel/*.whl "$here/tree"

say "testing it in QEMU"
mkdir -p "$here"/root/{torch,site,tree}
printf '/tree\n/torch\n/site\n' > "$here/root/usr/lib/python3/dist-packages/check.pth"
# QEMU keeps books on each page of the address space: softcann's window of 8 TiB would take all memory. torch's oneDNN makes
# instructions for SVE that QEMU does not know, so the processor has none.
unshare -m bash -c '
  here=$1; shift
  for folder in torch site tree; do mount --bind "$here/$folder" "$here/root/$folder"; done
  mount -t proc proc "$here/root/proc"
  mount --rbind /dev "$here/root/dev"
  exec chroot "$here/root" env -i PATH=/usr/bin:/bin HOME=/tmp CI=1 PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 QEMU_RESERVED_VA=0x2000000000 QEMU_CPU=neoverse-n1 SOFTCANN_MEMORY=1G bash -c "cd /tree && exec \"\$@\"" bash "$@"' bash "$here" \
  bash -c 'python3 -c "import torch_npu; assert torch_npu.run_check()" && python3 -m pytest -q -p no:cacheprovider "$@"' bash "${tests[@]}"
