// Logic on truth values and on bits.
#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/scalar.h"

using namespace softcann::op;

OP_COST(aclnnLogicalAnd, elementwise(out, self, other)) { at::cpu::logical_and_outf(self, other, out); }
OP_COST(aclnnLogicalOr, elementwise(out, self, other)) { at::cpu::logical_or_outf(self, other, out); }
OP_COST(aclnnLogicalXor, elementwise(out, self, other)) { at::cpu::logical_xor_outf(self, other, out); }
OP_COST(aclnnLogicalNot, elementwise(out, self)) { at::cpu::logical_not_outf(self, out); }
OP_COST(aclnnInplaceLogicalAnd, elementwise(selfRef, other)) { at::cpu::logical_and_outf(selfRef, other, selfRef); }
OP_COST(aclnnInplaceLogicalOr, elementwise(selfRef, other)) { at::cpu::logical_or_outf(selfRef, other, selfRef); }
OP_COST(aclnnInplaceLogicalNot, elementwise(selfRef)) { at::cpu::logical_not_outf(selfRef, selfRef); }

#define BITWISE(NAME, FUNCTION, SIGN)                                                                                            \
  OP_FULL(aclnnBitwise##NAME##Tensor, elementwise(out, self, other),                                                             \
          softcann::op::fast::bitwise(self, other, out, [](int a, int b) { return a SIGN b; })) {                                \
    at::cpu::FUNCTION##_outf(self, other, out);                                                                                  \
  }                                                                                                                              \
  OP_COST(aclnnBitwise##NAME##Scalar, elementwise(out, self)) { at::cpu::FUNCTION##_outf(self, wrapped(other), out); }           \
  OP_COST(aclnnInplaceBitwise##NAME##Tensor, elementwise(selfRef, other)) { at::cpu::FUNCTION##_outf(selfRef, other, selfRef); } \
  OP_COST(aclnnInplaceBitwise##NAME##Scalar, elementwise(selfRef)) { at::cpu::FUNCTION##_outf(selfRef, wrapped(other), selfRef); }
BITWISE(And, bitwise_and, &)
BITWISE(Or, bitwise_or, |)
BITWISE(Xor, bitwise_xor, ^)
OP_COST(aclnnBitwiseNot, elementwise(out, self)) { at::cpu::bitwise_not_outf(self, out); }
OP_COST(aclnnBitwiseAndTensorOut, elementwise(out, self, other)) { at::cpu::bitwise_and_outf(self, other, out); }
OP_COST(aclnnInplaceBitwiseAndTensorOut, elementwise(self, other)) { at::cpu::bitwise_and_outf(self, other, self); }
