// What functions of the program raise where nobody can take it.
#pragma once
#include <torch/csrc/utils/pybind.h>

namespace torch_npu::python {

// It is printed. But an interrupt is meant for the program, of which the main thread may be the one that called the function
// while it waited: it is raised there, as soon as Python runs on.
template <class Where>
void discard(py::error_already_set& error, Where&& where) {
  if (error.matches(PyExc_KeyboardInterrupt)) {
    PyErr_SetInterrupt();
  } else {
    error.discard_as_unraisable(std::forward<Where>(where));
  }
}

}  // namespace torch_npu::python
