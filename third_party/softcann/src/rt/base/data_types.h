// What is known of CANN's data types.
#pragma once

#include "rt/runtime.h"

namespace softcann {

struct DataType {
  aclDataType type;
  size_t bits;         // of one element
  const char* ascend;  // as Ascend's tools print it; null: they do not
  const char* name;    // as dumps have it; null: they hold bytes
  const char* numpy;   // null: NumPy has none
};

// Null where the type is unknown, or has no elements of one size.
SOFTCANN_API const DataType* find_data_type(aclDataType type);

}  // namespace softcann
