# Compiler and linker settings for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# GCC takes torch's SmallVector and std::optional for uninitialized where it inlines them; it has never been right.
add_compile_options(-Wall -Wextra -Wno-maybe-uninitialized)
option(TORCH_NPU_WERROR "Warnings are errors, as .ci/run has it" OFF)
if(TORCH_NPU_WERROR AND TORCH_NPU_SANITIZE)
  add_compile_options($<$<BOOL:$<TARGET_PROPERTY:UNSANITIZED>>:-Werror>)  # what sanitizers add makes GCC warn for no reason
elseif(TORCH_NPU_WERROR)
  add_compile_options(-Werror)
endif()
find_package(Threads REQUIRED)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache leaves units with a precompiled header alone unless told that the macros and times inside do not matter.
  # Not cmake's own env: each Python has a cmake of its own, and its path in the commands would compile all again.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE}")
endif()

# Memory decides how many compilers may run: an ordinary unit takes up to 1 GiB, a unit with torch/extension.h and a
# link up to 2. Targets of the second kind set JOB_POOL_COMPILE to heavy.
cmake_host_system_information(RESULT MEMORY_MIB QUERY AVAILABLE_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT CORES QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR COMPILE_JOBS "${MEMORY_MIB} / 1024")
math(EXPR HEAVY_JOBS "${MEMORY_MIB} / 2048")
foreach(jobs COMPILE_JOBS HEAVY_JOBS)
  if(${jobs} GREATER CORES)
    set(${jobs} ${CORES})
  elseif(${jobs} LESS 1)
    set(${jobs} 1)
  endif()
endforeach()
# Cached, because a reconfiguration under load must not change the command lines of a finished build.
set(TORCH_NPU_COMPILE_JOBS ${COMPILE_JOBS} CACHE STRING "Compilers that may run at once")
set(TORCH_NPU_HEAVY_JOBS ${HEAVY_JOBS} CACHE STRING "Links and large compilations that may run at once")
set_property(GLOBAL PROPERTY JOB_POOLS compile=${TORCH_NPU_COMPILE_JOBS} heavy=${TORCH_NPU_HEAVY_JOBS})
set(CMAKE_JOB_POOL_COMPILE compile)
set(CMAKE_JOB_POOL_LINK heavy)

if(TORCH_NPU_SANITIZE STREQUAL "address")
  set(SANITIZER -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(TORCH_NPU_SANITIZE STREQUAL "thread")
  set(SANITIZER -fsanitize=thread)
elseif(NOT TORCH_NPU_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TORCH_NPU_SANITIZE is '${TORCH_NPU_SANITIZE}'; it may be empty, 'address' or 'thread'")
endif()

# torch's own dependencies (accelerator libraries, libpython) need not be here to link against torch.
add_link_options(LINKER:--as-needed LINKER:--allow-shlib-undefined)
if(SANITIZER)
  # Targets with the property UNSANITIZED are compiled as in the ordinary build, of which ccache has them.
  foreach(flag ${SANITIZER} -O1 -g1 -fno-omit-frame-pointer)
    add_compile_options($<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNSANITIZED>>>:${flag}>)
  endforeach()
  add_link_options(${SANITIZER})
else()
  # A shared library of ours names all it needs. (Sanitizer runtimes are resolved at load; a Python module, which is a
  # MODULE library, takes Python's symbols from the process.)
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,-z,defs")
  add_link_options($<$<CONFIG:Release>:LINKER:--strip-debug>)
endif()

# No path of this machine in a library: torch lies beside torch_npu/ and softcann/ in site-packages.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH
    "$ORIGIN;$ORIGIN/lib;$ORIGIN/../torch/lib;$ORIGIN/../../torch/lib;$ORIGIN/../../../torch/lib")
