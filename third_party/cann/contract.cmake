# The contract as the target cann_headers: hand-written declarations, and the two prototypes of each aclnn operator from one
# line each. For whoever builds on it; Python_EXECUTABLE must be known.
set(CANN_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(CANN_GENERATED_DIR "${CMAKE_BINARY_DIR}/cann")
set(CANN_GENERATED "${CANN_GENERATED_DIR}/aclnn/aclnn_ops.h" "${CANN_GENERATED_DIR}/aclnn/aclnn_params.h"
    "${CANN_GENERATED_DIR}/aclnn/aclnn_names.inc")
add_custom_command(
  OUTPUT ${CANN_GENERATED}
  COMMAND "${Python_EXECUTABLE}" "${CANN_DIR}/gen_aclnn.py" "${CANN_DIR}/aclnn_ops.txt" "${CANN_GENERATED_DIR}"
  DEPENDS "${CANN_DIR}/gen_aclnn.py" "${CANN_DIR}/aclnn_ops.txt"
  COMMENT "Generating the aclnn prototypes"
  VERBATIM)
add_custom_target(cann_generate DEPENDS ${CANN_GENERATED})
add_library(cann_headers INTERFACE)
target_include_directories(cann_headers INTERFACE "${CANN_DIR}/include" "${CANN_GENERATED_DIR}")
add_dependencies(cann_headers cann_generate)
