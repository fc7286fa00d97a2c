// The file: header, table of partitions, and their bytes in memory.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "rt/base/error.h"
#include "rt/models/model.h"

namespace softcann::model {

// An error of reading a model, with the code that its caller is to get.
class ReadError : public Error {
 public:
  ReadError(aclError code, const std::string& text) : Error(ErrorKind::corrupt, text), code_(code) {}
  aclError code() const { return code_; }

 private:
  aclError code_;
};
[[noreturn]] void refuse(aclError code, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct Container {
  std::shared_ptr<char> owner;                 // of all the bytes below
  bool is_mapped = false;                      // they are a file's
  std::string_view body, definition, weights;  // of the model's file: all behind the header; its partitions
  std::vector<std::string_view> bundled;       // of a bundle: its models' files
  bool intact = true;                          // the checksum is right
};

// How many models a bundle holds: an .om whose partitions are .om files. Throws ReadError.
size_t count_models(const ModelSource& source);

// Checks all that the header promises but the checksum, which it computes. The bytes are the mapped file's, which a kernel that
// writes would not change (each page is copied then), or a copy of the client's memory; with `describe`, the client's memory
// itself.
Container open_container(const ModelSource& source, bool describe);

}  // namespace softcann::model
