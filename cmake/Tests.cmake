# collect_cpp_tests(FOLDERS...): adds the folders' tests to the target cpp_tests, which builds them all; ctest runs them.
# A test is a program that exits with 0 when it passes.
function(collect_cpp_tests)
  add_custom_target(cpp_tests)
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE")
        # Not shipped: it may know where the libraries were built and where torch is.
        set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH OFF EXCLUDE_FROM_ALL ON)
        add_dependencies(cpp_tests ${target})
      endif()
    endforeach()
  endforeach()
endfunction()
