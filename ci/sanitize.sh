#!/usr/bin/env bash
# Tests of the adapter and of softcann from Python, both built with a sanitizer, in a folder of their own.
#   bash ci/sanitize.sh address|thread [--whole] [-k NAME] [test/npu/test_stream.py ...]
# address: ASan and UBSan; thread: TSan. Without tests it takes those of TESTS. --whole builds the dispatch stubs and softcann's
# kernels with the sanitizer, too: twice the time. What a sanitizer tells stands in build/sanitize-<kind>-python/reports.
# ci/sanitizers has what is suppressed, with the reason of each line. (ci/test.sh --sanitize runs the C++ tests.)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kind=${1:-}
case $kind in address | thread) shift ;; *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
operators=OFF
if [[ ${1:-} == --whole ]]; then operators=ON; shift; fi

# What has pointers, threads, streams, processes or failures in it; no sweeps over operators.
TESTS=(test/npu/test_{device,stream,event,memory,graphs,recovery,runtime,failed_descriptors,stream_programs,programs,exit,fork,dlpack}.py
  test/softcann_op/test_mutated_calls.py test/softcann_comm
  test/distributed/test_{collectives,groups,point_to_point,work,flight_recorder,failures,leaks}.py)

setup_venv test ci/requirements-test.txt
folder=$PWD/build/sanitize-$kind-python
package=$folder/package
reports=$folder/reports
say "building with the $kind sanitizer"
TORCH_NPU_BUILD_DIR=$folder TORCH_NPU_CMAKE_ARGS="${TORCH_NPU_CMAKE_ARGS:-} -DTORCH_NPU_SANITIZE=$kind -DTORCH_NPU_SANITIZE_OPERATORS=$operators" \
  .venv/bin/python setup.py -q build --build-base "$folder/setup" --build-lib "$package"

rm -rf "$reports"
mkdir -p "$reports"
# libstdc++ beside them, for they look for its functions before Python has loaded it.
if [[ $kind == address ]]; then libraries=(asan ubsan stdc++); else libraries=(tsan stdc++); fi
preload=
for library in "${libraries[@]}"; do preload+=$("${CXX:-c++}" -print-file-name="lib$library.so")' '; done
if ((!$#)) || [[ $1 == -* ]]; then set -- "$@" "${TESTS[@]}"; fi
say "testing with the $kind sanitizer"
# pytest by its script and PYTHONSAFEPATH: the package of this folder is not to be the one in place.
# Leaks are another matter: Python and torch keep much until the end; SOFTCANN_CHECK=leak finds those of the device.
# report_mutex_bugs: torch ends some functions by a jump to pthread_mutex_unlock. TSan, which ignores the lock within torch, takes the unlock
# for one of the caller's. The C++ tests run with it.
# report_thread_leaks: a rank that ends without destroying its communicators leaves their threads to the end of the process.
# OMP_NUM_THREADS: TSan does not see OpenMP's joins. setarch -R, before anything is loaded: GCC 12's TSan does not know addresses of
# more random bits.
# The sanitizers' own allocator is not made for a fork while other threads allocate (GCC 12: no handler of pthread_atfork): the child
# may wait for ever for a lock of theirs. So one test that forks so is left out, and one that measures resident memory, for they keep
# what is freed. Sizes that no memory has are among what the tests ask for: allocator_may_return_null.
without=(--deselect test/npu/test_fork.py::test_children_of_a_busy_process_end --deselect test/distributed/test_leaks.py::test_many_operations)
# Random calls of aclnn do not wait for each other: what they write races, in the client and by intent. And a rank that reads what it wrote
# into another rank's memory comes after it by way of that rank, whose process TSan does not see.
if [[ $kind == thread ]]; then
  without+=(--ignore test/softcann_op/test_mutated_calls.py)
  without+=(--deselect "test/softcann_comm/test_comm_graphs.py::test_streams_of_a_graph_run_beside_each_other[shared]")
fi
status=0
setarch -R env LD_PRELOAD="$preload" PYTHONPATH="$package" TEST_PACKAGE="$package" \
  PYTHONSAFEPATH=1 TEST_LIBRARIES="$package/torch_npu/softcann/lib" OMP_NUM_THREADS=1 \
  ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:log_path=$reports/address:suppressions=$PWD/ci/sanitizers/address.supp" \
  UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/undefined" \
  TSAN_OPTIONS="allocator_may_return_null=1:suppressions=$PWD/ci/sanitizers/thread.supp:log_path=$reports/thread:history_size=4:report_mutex_bugs=0:report_thread_leaks=0:die_after_fork=0:exitcode=0" \
  .venv/bin/python .venv/bin/pytest -q -p no:cacheprovider "${without[@]}" "$@" || status=$?
mapfile -t told < <(grep -rlE 'ERROR: AddressSanitizer|runtime error:|WARNING: ThreadSanitizer' "$reports")
say "${#told[@]} reports, in $reports"
if ((${#told[@]})); then
  head -n 60 "${told[0]}" >&2
  exit 1
fi
exit "$status"
