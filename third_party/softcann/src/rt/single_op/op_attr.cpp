// Attributes of operators that clients name (aclopAttr).
#include "rt/base/described.h"
#include "rt/base/error.h"
#include "rt/single_op/named.h"

using namespace softcann;

namespace {

template <class T>
aclError set_attribute(const char* entry, aclopAttr* attr, const char* name, T value) {
  SOFTCANN_DESCRIBED(attr, "attr");
  SOFTCANN_REQUIRE(name, "attrName");
  if (*name == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: the name is empty", entry);
  attr->values[name] = std::move(value);
  return ACL_SUCCESS;
}

// A list of `count` values, as C gives it.
template <class To, class From>
aclError set_list(const char* entry, aclopAttr* attr, const char* name, int count, const From* values) {
  if (count < 0 || (count > 0 && values == nullptr)) return fail(ACL_ERROR_INVALID_PARAM, "%s: %d values", entry, count);
  return set_attribute(entry, attr, name, std::vector<To>(values, values + count));
}

}  // namespace

#define ATTRIBUTE(NAME, VALUE)                                            \
  aclError NAME(aclopAttr* attr, const char* attrName, VALUE attrValue) { \
    SOFTCANN_ENTRY(NAME);                                                 \
    return set_attribute(#NAME, attr, attrName, attrValue);               \
  }
#define LIST_ATTRIBUTE(NAME, VALUE, VALUES)                                            \
  aclError NAME(aclopAttr* attr, const char* attrName, int numValues, VALUES values) { \
    SOFTCANN_ENTRY(NAME);                                                              \
    return set_list<VALUE>(#NAME, attr, attrName, numValues, values);                  \
  }

extern "C" {

aclopAttr* aclopCreateAttr() {
  SOFTCANN_ENTRY_VALUE(aclopCreateAttr, nullptr);
  return Described<aclopAttr>::make();
}

void aclopDestroyAttr(const aclopAttr* attr) {
  SOFTCANN_ENTRY_VALUE(aclopDestroyAttr, );
  if (attr != nullptr && is_described(attr, "attr")) Described<aclopAttr>::drop(attr);
}

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrBool);
  return set_attribute("aclopSetAttrBool", attr, attrName, attrValue != 0);
}

ATTRIBUTE(aclopSetAttrInt, int64_t)
ATTRIBUTE(aclopSetAttrFloat, float)

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrString);
  SOFTCANN_REQUIRE(attrValue, "attrValue");
  return set_attribute("aclopSetAttrString", attr, attrName, std::string(attrValue));
}

ATTRIBUTE(aclopSetAttrDataType, aclDataType)
LIST_ATTRIBUTE(aclopSetAttrListBool, uint8_t, const uint8_t*)
LIST_ATTRIBUTE(aclopSetAttrListInt, int64_t, const int64_t*)
LIST_ATTRIBUTE(aclopSetAttrListFloat, float, const float*)
LIST_ATTRIBUTE(aclopSetAttrListDataType, aclDataType, aclDataType*)

aclError aclopSetAttrListString(aclopAttr* attr, const char* attrName, int numValues, const char** values) {
  SOFTCANN_ENTRY(aclopSetAttrListString);
  for (int i = 0; values != nullptr && i < numValues; ++i) {
    if (values[i] == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListString: text %d is a null pointer", i);
  }
  return set_list<std::string>("aclopSetAttrListString", attr, attrName, numValues, values);
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* values[]) {
  SOFTCANN_ENTRY(aclopSetAttrListListInt);
  if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr))) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListListInt: %d lists", numLists);
  }
  std::vector<std::vector<int64_t>> lists;
  for (int i = 0; i < numLists; ++i) {
    if (numValues[i] < 0 || (numValues[i] > 0 && values[i] == nullptr)) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListListInt: list %d has %d values", i, numValues[i]);
    }
    lists.emplace_back(values[i], values[i] + numValues[i]);
  }
  return set_attribute("aclopSetAttrListListInt", attr, attrName, std::move(lists));
}
}
