// Runs atc, which is Python, in a process of its own.
#pragma once

#include <map>
#include <string>

namespace softcann::compiler {

// Converts a serialized ONNX model with these options of atc's. Throws Error with what atc said last.
std::string convert(const std::string& onnx, const std::map<std::string, std::string>& options);

}  // namespace softcann::compiler
