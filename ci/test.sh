#!/usr/bin/env bash
# Sets up as ci/demo.sh does and runs the tests, on all cores (ci/run_tests.py); arguments go to pytest.
#   bash ci/test.sh [-k NAME] [test/unit ...]
#   bash ci/test.sh --quick       five to eight minutes: what QUICK in ci/run_tests.py names
#   bash ci/test.sh --slow        with the tests that take long and find little that the others do not; before a push
#   bash ci/test.sh --sanitize    the C++ tests of softcann and the allocator under ASan+UBSan, then under TSan
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# sanitize address|thread: builds the C++ tests with the sanitizer in their own folder and runs them.
sanitize() {
  local build=build/sanitize-$1
  say "C++ tests under the $1 sanitizer"
  .venv/bin/cmake -S . -B "$build" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DTORCH_NPU_OUTPUT_DIR="$PWD/$build/package" \
    -DTORCH_NPU_BUILD_TESTS=ON -DTORCH_NPU_BUILD_ADAPTER=OFF -DTORCH_NPU_SANITIZE="$1" > /dev/null
  .venv/bin/ninja -C "$build" cpp_tests
  .venv/bin/ctest --test-dir "$build" --output-on-failure --timeout 600
}

if [[ ${1:-} == --sanitize ]]; then
  setup_venv test ci/requirements-test.txt
  sanitize address
  sanitize thread
  exit
fi
setup_venv test ci/requirements-test.txt
say "testing"
exec .venv/bin/python ci/run_tests.py "$@"
