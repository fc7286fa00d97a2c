#include "op/names.h"

#include <cstring>

#include "op/executor.h"
#include "rt/base/data_types.h"

namespace softcann::op {

const char* type_name(aclDataType type) {
  const DataType* known = find_data_type(type);
  return known != nullptr && known->ascend != nullptr ? known->ascend : "UNDEFINED";
}

std::string parameter_name(const OpInfo& info, int index) {
  const char* begin = info.params;
  for (; index > 0; --index) begin = std::strchr(begin, ',') + 1;
  return {begin, std::strcspn(begin, ",")};
}

}  // namespace softcann::op
