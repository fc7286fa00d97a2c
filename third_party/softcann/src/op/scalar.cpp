#include "op/scalar.h"

#include <ATen/EmptyTensor.h>

#include "op/pool.h"

namespace softcann::op {
namespace {

struct Cell {
  at::Tensor tensor;
  bool is_wrapped = false;
};
enum CellType { real_cell, integer_cell, unsigned_cell, bool_cell, complex_cell, cell_type_count };
struct Cells {
  Cell cells[2][cell_type_count];
  int turn = 0;
};

const at::Tensor& fill(const at::Scalar& value, bool wrap) {
  static thread_local auto* mine = new Cells();  // leaked: tensors must not die with the thread's other state
  mine->turn ^= 1;
  const bool is_complex = value.isComplex(), is_real = value.isFloatingPoint(), is_bool = value.isBoolean();
  const bool is_unsigned = value.type() == c10::ScalarType::UInt64;  // more than an int64_t holds
  const CellType type = is_real       ? real_cell
                        : is_complex  ? complex_cell
                        : is_bool     ? bool_cell
                        : is_unsigned ? unsigned_cell
                                      : integer_cell;
  Cell& cell = mine->cells[mine->turn][type];
  if (!cell.tensor.defined() || cell.tensor.use_count() != 1 || cell.tensor.storage().use_count() != 1) {
    // Outlives the kernel, so it must not come from the scratch cache's idea of a temporary; either is fine for memory.
    cell.tensor = at::detail::empty_cpu({}, value.type(), std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    cell.is_wrapped = false;
  }
  if (cell.is_wrapped != wrap) cell.tensor.unsafeGetTensorImpl()->set_wrapped_number(cell.is_wrapped = wrap);
  void* data = cell.tensor.mutable_data_ptr();
  if (is_real) {
    *static_cast<double*>(data) = value.toDouble();
  } else if (is_complex) {
    *static_cast<c10::complex<double>*>(data) = value.toComplexDouble();
  } else if (is_bool) {
    *static_cast<bool*>(data) = value.toBool();
  } else if (is_unsigned) {
    *static_cast<uint64_t*>(data) = value.toUInt64();
  } else {
    *static_cast<int64_t*>(data) = value.toLong();
  }
  return cell.tensor;
}

}  // namespace

const at::Tensor& wrapped(const at::Scalar& value) { return fill(value, true); }

const at::Tensor& wrapped(const at::Scalar& value, const at::Tensor& self, const at::Tensor& out) {
  const bool computed_in_out =
      value.isFloatingPoint() && c10::isIntegralType(self.scalar_type(), true) && c10::isFloatingType(out.scalar_type());
  return fill(value, !computed_in_out);
}

}  // namespace softcann::op
