#!/usr/bin/env bash
# Builds dist/torch_npu-*.whl, softcann bundled, and dist/softcann-*.whl, softcann alone.
#   bash ci/build.sh [--python=3.9|...|3.13] [--torch=X.Y] [--jobs=N] [--debug|--asan|--quick] [--no-softcann]
# In build/ it keeps an environment for each Python, and for each minor of torch its headers and libraries (none of
# its dependencies) and the objects, which know no Python but for the bindings: after one Python, the next is quick.
# --quick compiles what is not to be shipped: optimized less, in three quarters of the time.
# ci/versions.txt has the supported pairs. Building again compiles only what changed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

want_python='' want_torch='' with_softcann=1 variant='' cmake_arguments=" ${TORCH_NPU_CMAKE_ARGS:-}"
for argument in "$@"; do
  case $argument in
    --python=*) want_python=${argument#*=} ;;
    --torch=*) want_torch=${argument#*=} ;;
    --jobs=*) export MAX_JOBS=${argument#*=} ;;
    --debug) variant=-debug cmake_arguments+=' -DCMAKE_BUILD_TYPE=Debug' ;;
    --asan) variant=-asan cmake_arguments+=' -DTORCH_NPU_SANITIZE=address' ;;
    --quick) variant=-quick cmake_arguments+=' -DCMAKE_BUILD_TYPE=Quick' ;;
    --no-softcann) with_softcann=0 ;;
    -h | --help) sed -n '2,7s/^# \?//p' ci/build.sh; exit ;;
    *) die "unknown argument '$argument'; see bash ci/build.sh --help" ;;
  esac
done
if [[ -n $want_python ]] && ! supported_python "$want_python"; then
  die "Python $want_python is not supported:
$(cat ci/versions.txt)"
fi
python=$(find_python "$want_python")
minor=$(python_minor "$python")
torch=$(default_torch "$minor")
if [[ -n $want_torch && $want_torch != "${torch%.*}" && $want_torch != "$torch" ]]; then
  supported_pair "$minor" "$(cut -d. -f1,2 <<< "$want_torch")" || die "Python $minor with torch $want_torch is not supported:
$(cat ci/versions.txt)"
  torch=$want_torch
  [[ $torch == *.*.* ]] || torch+=.*
fi
need_compiler "$python"

tag=torch$(cut -d. -f1,2 <<< "$torch")
venv=build/venv-py$minor
make_venv "$venv" "$python"
once "$venv" build "$(cat requirements.txt)" pip_install "$venv" -r requirements.txt
fetch_torch "$venv" "$torch" "build/$tag"

# Two builds for one torch would compile into one folder: the second waits.
exec 9> "build/$tag$variant.lock"
if command -v flock > /dev/null; then flock 9; fi
# Error messages name source files; in a wheel they should not name this machine's folders.
cmake_arguments+=" '-DCMAKE_CXX_FLAGS=${CXXFLAGS:-} -ffile-prefix-map=$PWD/='"
export TORCH_NPU_BUILD_DIR=$PWD/build/$tag-objects$variant TORCH_NPU_CMAKE_ARGS="-DTORCH_NPU_BUILD_SOFTCANN=$with_softcann$cmake_arguments"
export PYTHONPATH=$PWD/build/$tag
# Two builds of one commit give the same files: those in a wheel have the commit's date, not the build's.
if [[ -z ${SOURCE_DATE_EPOCH:-} ]] && commit_date=$(git log -1 --format=%ct 2> /dev/null); then export SOURCE_DATE_EPOCH=$commit_date; fi
# wheel FOLDER NAME
wheel() {
  say "building $2 for Python $minor, torch $torch"
  build_wheel "$PWD/$venv/bin/python" "$1" "$PWD/build/stage-py$minor-$tag$variant/$2" "$PWD/dist"
}
wheel . torch_npu
if ((with_softcann)); then   # alone: the libraries that the other wheel was made of
  SOFTCANN_LIBRARIES=$(find "$PWD/build/stage-py$minor-$tag$variant/torch_npu" -path '*/torch_npu/softcann/lib' -type d | head -1)
  SOFTCANN_VERSION=$(PYTHONPATH=ci "$venv/bin/python" -c 'import sys, native_build; print(native_build.own_version(sys.argv[1]))' "${tag#torch}.0")
  export SOFTCANN_LIBRARIES SOFTCANN_VERSION
  wheel third_party/softcann softcann
fi
ls -l dist
