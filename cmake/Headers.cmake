# install_headers(<target> <folder in the package> <root> <file>...): copies headers into the package when they change,
# for C++ outside of this project. Files keep their path below the root.
function(install_headers target folder root)
  set(copies)
  foreach(file ${ARGN})
    set(copy "${TORCH_NPU_OUTPUT_DIR}/include/${folder}/${file}")
    add_custom_command(
      OUTPUT "${copy}"
      COMMAND ${CMAKE_COMMAND} -E copy "${root}/${file}" "${copy}"
      DEPENDS "${root}/${file}"
      COMMENT "Installing ${file}" VERBATIM)
    list(APPEND copies "${copy}")
  endforeach()
  add_custom_target(${target} ALL DEPENDS ${copies})
endfunction()
