#include "op/trace.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "fault/fault.h"
#include "op/tensor.h"
#include "rt/recording/call_record.h"
#include "rt/base/json.h"

namespace softcann::op {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}
std::string number(int64_t value) { return std::to_string(value); }
std::string number(float value) { return number(static_cast<double>(value)); }
std::string number(bool value) { return value ? "true" : "false"; }

template <class List, class Tell>
std::string listed(const List& elements, const Tell& tell) {
  std::string text = "[";
  for (const auto& element : elements) {
    if (text.size() > 1) text += ',';
    text += tell(element);
  }
  return text + ']';
}
template <class E>
std::string numbers(c10::ArrayRef<E> elements) {
  return listed(elements, [](E element) { return number(element); });
}

std::string told(const aclTensor& made) {
  const auto type = std::to_string(static_cast<int>(made.type));
  const ClientShape shape = client_shape(made);
  std::string text = "{\"dtype\":" + type + ",\"shape\":" + numbers<int64_t>(shape.sizes);
  text += ",\"strides\":" + numbers<int64_t>(shape.strides) + ",\"offset\":" + std::to_string(shape.offset);
  text += ",\"format\":" + std::to_string(static_cast<int>(made.format));
  return text + ",\"storage\":" + numbers<int64_t>(shape.storage) + '}';
}

std::string told(const aclScalar& made) {
  const auto type = std::to_string(static_cast<int>(made.type));
  const at::Scalar& value = made.value;
  std::string text;
  if (value.isComplex()) {
    const auto both = value.toComplexDouble();
    text = '[' + number(both.real()) + ',' + number(both.imag()) + ']';
  } else {
    text = value.isFloatingPoint() ? number(value.toDouble())
           : value.isBoolean()     ? number(value.toBool())
                                   : number(value.toLong());
  }
  return "{\"scalar\":" + type + ",\"value\":" + text + '}';
}

template <class E>
std::string told_or_null(const E* element) {
  return element ? told(*element) : "null";
}

std::string told(const Object* object) {
  if (!object) return "null";
  switch (object->kind) {
    case Kind::tensor:
      return told(*static_cast<const aclTensor*>(object));
    case Kind::scalar:
      return told(*static_cast<const aclScalar*>(object));
    case Kind::int_array:
      return numbers(static_cast<const aclIntArray*>(object)->ref());
    case Kind::float_array:
      return numbers(static_cast<const aclFloatArray*>(object)->ref());
    case Kind::bool_array:
      return numbers(static_cast<const aclBoolArray*>(object)->ref());
    case Kind::tensor_list:
      return listed(static_cast<const aclTensorList*>(object)->elements, [](const aclTensor* one) { return told_or_null(one); });
    case Kind::scalar_list:
      return listed(static_cast<const aclScalarList*>(object)->elements, [](const aclScalar* one) { return told_or_null(one); });
    default:
      return "\"unknown\"";
  }
}

std::string told(const OpInfo& info, int index, const Slot& slot) {
  switch (info.plains[index]) {
    case Plain::integer:
      return number(slot.integer);
    case Plain::real:
      return number(slot.real);
    case Plain::dtype:
      return json_text(c10::toString(static_cast<at::ScalarType>(slot.integer)));
    case Plain::text:
      return json_text(slot.text);
    default:
      return told(slot.object);
  }
}

constexpr struct {
  const char* name;
  uint64_t mask;
} kSingles[] = {
#include "op/single_params.inc"
};

// Whether the parameter is of C's type float.
bool is_single(const char* op, int index) {
  for (const auto& known : kSingles) {
    if (std::strcmp(known.name, op) == 0) return (known.mask >> index & 1) != 0;
  }
  return false;
}

// The same, so that the call can be made again: with addresses, and told apart by type.
std::string placed(const aclTensor* made) {
  if (made == nullptr) return "null";
  const std::string text = told(*made);
  return text.substr(0, text.size() - 1) + ",\"at\":" + std::to_string(call_record::place(made->address)) +
         ",\"item\":" + std::to_string(made->item) + '}';
}

std::string typed(const OpInfo& info, int index, const Slot& slot) {
  const std::string plain = told(info, index, slot);
  switch (info.plains[index]) {
    case Plain::integer:
      return plain;
    case Plain::real:
      return (is_single(info.name, index) ? "{\"float\":" : "{\"double\":") + plain + '}';
    case Plain::dtype:
      return "{\"type\":" + plain + '}';
    case Plain::text:
      return "{\"text\":" + plain + '}';
    default:
      break;
  }
  if (slot.object == nullptr) return "null";
  switch (slot.object->kind) {
    case Kind::tensor:
      return placed(static_cast<const aclTensor*>(slot.object));
    case Kind::tensor_list:
      return "{\"tensors\":" +
             listed(static_cast<const aclTensorList*>(slot.object)->elements, [](const aclTensor* one) { return placed(one); }) +
             '}';
    case Kind::scalar:
      return plain;
    case Kind::int_array:
      return "{\"ints\":" + plain + '}';
    case Kind::float_array:
      return "{\"floats\":" + plain + '}';
    case Kind::bool_array:
      return "{\"bools\":" + plain + '}';
    default:
      return "{\"scalars\":" + plain + '}';
  }
}

template <class Tell>
std::string arguments(const aclOpExecutor& executor, const Tell& tell) {
  const OpInfo& info = *executor.op;
  std::string text = "{";
  const char* name = info.params;
  for (int i = 0; i < info.count; ++i) {
    const size_t length = std::strcspn(name, ",");
    text += (i ? ",\"" : "\"") + std::string(name, length) + "\":" + tell(info, i, executor.slots[i]);
    name += length + 1;
  }
  return text + '}';
}

// Of the elements in the view's order.
std::string digest_of(const aclTensor* made) {
  if (made == nullptr || !made->tensor.defined()) return "null";
  const at::Tensor whole = made->tensor.contiguous();
  return '"' + call_record::digest(whole.const_data_ptr(), whole.nbytes()) + '"';
}

}  // namespace

void record_operator(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  if (executor.plan) return;  // a part of it was done by other processes
  std::string results;
  for (int i = 0; i < info.count; ++i) {
    const Object* object = (info.written >> i & 1) != 0 ? executor.slots[i].object : nullptr;
    if (object == nullptr) continue;
    const std::string key = (results.empty() ? "\"" : ",\"") + std::to_string(i) + "\":";
    results += key + (object->kind == Kind::tensor ? digest_of(static_cast<const aclTensor*>(object))
                                                   : listed(static_cast<const aclTensorList*>(object)->elements,
                                                            [](const aclTensor* one) { return digest_of(one); }));
  }
  call_record::write(
      "\"kind\":\"operator\",\"op\":\"" + std::string(info.name) + "\",\"device\":" + std::to_string(call_record::device()) +
      ",\"stream\":" + std::to_string(call_record::stream()) +
      ",\"args\":" + arguments(executor, [](const OpInfo& of, int i, const Slot& slot) { return typed(of, i, slot); }) +
      ",\"results\":{" + results + '}');
}

void trace_launch(const aclOpExecutor& executor, aclrtStream stream) {
  if (!fault::tracing()) return;
  const OpInfo& info = *executor.op;
  char place[32];
  std::snprintf(place, sizeof(place), "%" PRIxPTR, reinterpret_cast<uintptr_t>(stream));
  const std::string args = arguments(executor, [](const OpInfo& of, int i, const Slot& slot) { return told(of, i, slot); });
  fault::trace("launch", "{\"op\":" + json_text(info.name) + ",\"stream\":\"" + place + "\",\"args\":" + args + '}');
}

}  // namespace softcann::op
