// Tokens of arguments: see third_party/softcann/docs/om_format.md.
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <charconv>
#include <cstdlib>

#include "model/program.h"
#include "model/wire.h"

namespace softcann::model {
namespace {

std::string shown(std::string_view text) { return std::string(text.substr(0, 80)); }

Want want_list(const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::TensorType:
      return Want::tensors;
    case c10::TypeKind::AnyType:
      return Want::values;
    case c10::TypeKind::OptionalType:
      return element.castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::TensorType ? Want::optional_tensors
                                                                                                         : Want::numbers;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return Want::integers;
    case c10::TypeKind::FloatType:
      return Want::reals;
    case c10::TypeKind::BoolType:
      return Want::booleans;
    case c10::TypeKind::NumberType:
      return Want::numbers;
    default:
      damaged("a schema takes a list of %s", element.str().c_str());
  }
}

Want want_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return want_of(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType:
      return want_list(*type.castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::TensorType:
      return Want::tensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return Want::integer;
    case c10::TypeKind::FloatType:
      return Want::real;
    case c10::TypeKind::BoolType:
      return Want::boolean;
    case c10::TypeKind::NumberType:
      return Want::number;
    case c10::TypeKind::StringType:
      return Want::text;
    default:
      damaged("a schema takes a %s, for which there is no token", type.str().c_str());
  }
}

at::IValue numbers_value(Want want, const std::vector<int64_t>& whole, const std::vector<double>& real, char letter) {
  switch (want) {
    case Want::integers:
      return c10::List<int64_t>(at::ArrayRef<int64_t>(whole));
    case Want::reals:
      return c10::List<double>(at::ArrayRef<double>(real));
    case Want::booleans: {
      c10::List<bool> list;
      for (const int64_t one : whole) list.push_back(one != 0);
      return list;
    }
    case Want::numbers: {
      c10::List<at::Scalar> list;
      for (size_t i = 0; i < whole.size(); ++i) list.push_back(letter == 'F' ? at::Scalar(real[i]) : at::Scalar(whole[i]));
      return list;
    }
    case Want::tensors:
      return c10::List<at::Tensor>();
    case Want::optional_tensors:
      return c10::List<std::optional<at::Tensor>>();
    case Want::values:
      return c10::impl::GenericList(c10::AnyType::get());
    default:
      damaged("a list where one value is expected");
  }
}

at::IValue number_value(Want want, char letter, std::string_view text) {
  switch (want) {
    case Want::real:
      return letter == 'f' ? real_number(text) : static_cast<double>(whole_number(text));
    case Want::boolean:
      return whole_number(text) != 0;
    case Want::number:
      if (letter == 'f') return real_number(text);
      if (letter == 'b') return whole_number(text) != 0;
      return whole_number(text);
    case Want::integer:
      if (letter == 'f') damaged("'%s' where a whole number is expected", shown(text).c_str());
      return whole_number(text);
    default:
      damaged("the number '%s' where none is expected", shown(text).c_str());
  }
}

void read_tensors(std::string_view text, Argument& to, SlotNames& names) {
  if (!is_list(to.want) || is_number_list(to.want)) damaged("a list of tensors where none is expected");
  to.from = Argument::From::values;
  for (const std::string_view name : split(text, ',')) to.slots.push_back(name == "-" ? no_slot : names.of(name));
}

void read_list(char letter, std::string_view text, Argument& to, SlotNames& names) {
  bool mixed = false;
  for (const std::string_view item : split(text, ',')) {
    const bool of_value = !item.empty() && item.front() == '@';
    mixed |= of_value;
    to.slots.push_back(of_value ? names.of(item.substr(1)) : no_slot);
    const double real = of_value ? 0 : letter == 'F' ? real_number(item) : static_cast<double>(whole_number(item));
    to.reals.push_back(real);
    if (letter == 'F' && to.want == Want::integers) damaged("'%s' where whole numbers are expected", shown(text).c_str());
    to.numbers.push_back(of_value || letter == 'F' ? 0 : whole_number(item));
  }
  if (mixed) {
    if (!is_number_list(to.want)) damaged("a list of numbers where none is expected");
    to.from = Argument::From::mixed;
    return;
  }
  to.constant = numbers_value(to.want, to.numbers, to.reals, letter);
}

// `i:3` for an int[2]: as many as the schema says.
void repeat_number(char letter, std::string_view text, int32_t count, Argument& to, SlotNames& names) {
  std::string repeated(text);
  for (int32_t i = 1; i < count; ++i) repeated.append(",").append(text);
  read_list(letter == 'f' ? 'F' : letter == 'b' ? 'B' : 'I', repeated, to, names);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int64_t whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) damaged("'%s' is no whole number", shown(text).c_str());
  return value;
}

double real_number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != 0) damaged("'%s' is no number", shown(text).c_str());
  return value;
}

std::vector<int64_t> read_dims(std::string_view text) {
  std::vector<int64_t> dims;
  if (text == "-") return dims;
  for (const std::string_view part : split(text, ',')) dims.push_back(whole_number(part));
  if (dims.size() > ACL_MAX_DIM_CNT) damaged("%zu dimensions", dims.size());
  return dims;
}

Argument read_argument(std::string_view token, const c10::Argument& schema, SlotNames& names) {
  Argument made;
  if (token == "n") return made;  // None
  if (token.size() < 2 || (token[1] != ':' && token[1] != '@')) damaged("the token '%s'", shown(token).c_str());
  made.want = want_of(*schema.type());
  const char letter = token[0];
  const bool of_value = token[1] == '@';
  const std::string_view text = token.substr(2);
  switch (letter) {
    case 't':
    case 'L':
      made.from = Argument::From::value;
      made.slot = names.of(text);
      return made;
    case 'T':
      read_tensors(text, made, names);
      return made;
    case 's':
      if (made.want != Want::text) damaged("the text '%s' where none is expected", shown(text).c_str());
      made.constant = std::string(text);
      return made;
    case 'd':
      made.constant = number_value(Want::integer, 'i', text);
      return made;
    case 'i':
    case 'f':
    case 'b':
      if (of_value) {
        made.from = is_list(made.want) ? Argument::From::items : Argument::From::item;
        made.slot = names.of(text);
      } else if (is_list(made.want)) {
        constexpr int32_t most = 16;
        repeat_number(letter, text, std::min(schema.N().value_or(1), most), made, names);
      } else {
        made.constant = number_value(made.want, letter, text);
      }
      return made;
    case 'I':
    case 'F':
    case 'B':
      if (!is_list(made.want)) damaged("a list where one value is expected");
      if (of_value) {
        made.from = Argument::From::items;
        made.slot = names.of(text);
      } else {
        read_list(letter, text, made, names);
      }
      return made;
    default:
      damaged("the token '%s'", shown(token).c_str());
  }
}

}  // namespace softcann::model
