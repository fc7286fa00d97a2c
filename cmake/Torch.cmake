# Finds Python and the torch wheel's folder without importing torch.
#   torch_headers_libs  headers; libc10, libtorch_cpu, libtorch_python (linked only where used)
#   python_headers      Python.h
find_package(Python REQUIRED COMPONENTS Interpreter)

function(ask_python variable code)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "${code}"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${Python_EXECUTABLE} could not answer: ${code}")
  endif()
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

ask_python(PYTHON_INCLUDE_DIR "import sysconfig; print(sysconfig.get_path('include'))")
if(NOT PYTHON_EXT_SUFFIX)   # given for another processor, whose Python cannot be asked
  ask_python(PYTHON_EXT_SUFFIX "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
endif()
if(NOT TORCH_DIR)
  ask_python(TORCH_DIR "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
  set(TORCH_DIR "${TORCH_DIR}" CACHE PATH "The installed torch package: site-packages/torch" FORCE)
endif()
if(NOT EXISTS "${TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No torch at TORCH_DIR='${TORCH_DIR}'. Install it for ${Python_EXECUTABLE} "
    "(pip install torch) or give -DTORCH_DIR=<site-packages/torch>.")
endif()
if(NOT EXISTS "${PYTHON_INCLUDE_DIR}/Python.h")
  message(FATAL_ERROR "No Python.h in '${PYTHON_INCLUDE_DIR}'. Install Python's development headers "
    "(Debian and Ubuntu: apt-get install python3-dev).")
endif()

file(STRINGS "${TORCH_DIR}/version.py" TORCH_VERSION REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${TORCH_VERSION}")
message(STATUS "torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_headers_libs INTERFACE)
target_include_directories(torch_headers_libs SYSTEM INTERFACE
  "${TORCH_DIR}/include" "${TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(torch_headers_libs INTERFACE
  "${TORCH_DIR}/lib/libtorch_cpu.so" "${TORCH_DIR}/lib/libc10.so" "${TORCH_DIR}/lib/libtorch_python.so"
  Threads::Threads)

add_library(python_headers INTERFACE)
target_include_directories(python_headers SYSTEM INTERFACE "${PYTHON_INCLUDE_DIR}")
if(TORCH_VERSION VERSION_LESS 2.9)
  # Before pybind11 3, modules share their types only if compilers of one ABI version made them. Ours takes the name of
  # torch's, as torch's own extensions do; the layouts of the types in question are the same.
  file(STRINGS "${TORCH_DIR}/lib/libtorch_python.so" PYBIND11_ID LIMIT_COUNT 1 REGEX "__pybind11_internals_v.*_cxxabi[0-9]+__")
  string(REGEX MATCH "_cxxabi[0-9]+" PYBIND11_ABI "${PYBIND11_ID}")
  if(PYBIND11_ABI)
    target_compile_definitions(python_headers INTERFACE PYBIND11_BUILD_ABI="${PYBIND11_ABI}")
  endif()
endif()
