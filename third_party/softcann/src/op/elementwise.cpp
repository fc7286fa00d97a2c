#include "op/elementwise.h"

#include <sstream>

namespace softcann::op {

void refuse_shapes(const at::Tensor& out, const at::Tensor& in) {
  std::ostringstream text;
  text << "the shape " << in.sizes() << " does not broadcast to the output's " << out.sizes();
  invalid("%s", text.str().c_str());
}

}  // namespace softcann::op
