#include "model/container.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "rt/base/sha256.h"

namespace softcann::model {
namespace {

constexpr size_t header_bytes = 256, weight_alignment = 64;
constexpr uint32_t magic_number = 0x444F4D49;

#pragma pack(push, 1)
// The model file header of an .om, up to what is read here.
struct Header {
  uint32_t magic, header_size, version;
  char checksum[64];
  uint32_t length;
  uint8_t is_encrypted, is_checksum, model_type, generation_mode;
  char name[32];
  uint32_t operators;
  char user_info[32];
  uint32_t ir_version, model_count;
  char platform_version[20];
  uint8_t platform_type;
  uint8_t padding[3];
  uint64_t model_length;
};
#pragma pack(pop)
static_assert(sizeof(Header) <= header_bytes);

constexpr uint8_t bundle_type = 4;  // as modeltype of the header

enum PartitionType : uint32_t { model_definition = 0, weights_data = 1, bundled_model = 24 };
struct WideEntry {
  uint32_t type, unused;
  uint64_t offset, size;
};
struct NarrowEntry {
  uint32_t type, offset, size;
};

std::string_view map_file(const char* path, std::shared_ptr<char>& owner) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    refuse(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "the model file '%s' cannot be opened: %s", path, std::strerror(errno));
  struct stat status{};
  const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<size_t>(status.st_size);
  void* at = regular && size != 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (!regular) refuse(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "'%s' is no file", path);
  if (size == 0) refuse(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "the model file '%s' is empty", path);
  if (at == MAP_FAILED) refuse(ACL_ERROR_GE_MEMORY_ALLOCATION, "the model file '%s' of %zu bytes cannot be mapped", path, size);
  owner = std::shared_ptr<char>(static_cast<char*>(at), [size](char* p) { munmap(p, size); });
  return {owner.get(), size};
}

std::string_view copy_memory(const char* from, size_t bytes, std::shared_ptr<char>& owner) {
  constexpr size_t page = 4096;
  if (bytes > SIZE_MAX - page) refuse(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "a model of %zu bytes", bytes);
  auto* to = static_cast<char*>(std::aligned_alloc(page, (bytes + page - 1) / page * page));
  if (to == nullptr) throw std::bad_alloc();
  owner = std::shared_ptr<char>(to, [](char* p) { std::free(p); });
  std::memcpy(to, from, bytes);
  return {to, bytes};
}

// The bytes behind the header, which has been checked.
std::string_view check_header(std::string_view file, Header& header) {
  if (file.size() < header_bytes) {
    refuse(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "the model has %zu bytes, its header alone has %zu", file.size(),
           header_bytes);
  }
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.magic != magic_number || header.header_size != header_bytes) {
    refuse(ACL_ERROR_GE_PARAM_INVALID, "this is no .om file: it begins with 0x%08x, not with 0x%08x. Convert the model with atc",
           header.magic, magic_number);
  }
  if (header.is_encrypted != 0) refuse(ACL_ERROR_FEATURE_UNSUPPORTED, "the model is encrypted, which softcann does not read");
  const std::string_view body = file.substr(header_bytes);
  const uint64_t promised = header.model_length != 0 ? header.model_length : header.length;
  if (promised > body.size()) {
    refuse(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "the model is cut off: %llu bytes are to follow the header, there are %zu",
           static_cast<unsigned long long>(promised), body.size());
  }
  return body.substr(0, promised);
}

template <class Entry>
void read_table(std::string_view body, size_t head, Container& to) {
  uint32_t count = 0;
  if (body.size() >= head) std::memcpy(&count, body.data(), sizeof(count));
  constexpr uint32_t most = 64;
  if (count == 0 || count > most || body.size() < head + count * sizeof(Entry)) {
    refuse(ACL_ERROR_GE_PARAM_INVALID, "the table of partitions is damaged: %u entries", count);
  }
  const std::string_view data = body.substr(head + count * sizeof(Entry));
  for (uint32_t i = 0; i < count; ++i) {
    Entry entry;
    std::memcpy(&entry, body.data() + head + i * sizeof(Entry), sizeof(entry));
    if (entry.offset > data.size() || entry.size > data.size() - entry.offset) {
      refuse(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "partition %u lies outside the file", entry.type);
    }
    const std::string_view part = data.substr(entry.offset, entry.size);
    if (entry.type == model_definition) to.definition = part;
    if (entry.type == weights_data) to.weights = part;
    if (entry.type == bundled_model) to.bundled.push_back(part);
  }
}

// The header and the partitions of one file, which `bytes` are.
void read_file(std::string_view bytes, Header& header, Container& to) {
  to.bundled.clear();
  const std::string_view body = check_header(bytes, header);
  if (header.model_length != 0) {
    read_table<WideEntry>(body, 2 * sizeof(uint32_t), to);
  } else {
    read_table<NarrowEntry>(body, sizeof(uint32_t), to);
  }
  to.body = body;
  if (header.model_type == bundle_type && to.bundled.empty()) {
    refuse(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "the bundle holds no model");
  }
}

bool is_intact(std::string_view body, const Header& header) {
  constexpr uint8_t unchecked = 1;
  if (header.is_checksum == unchecked) return true;
  constexpr char digits[] = "0123456789abcdef";
  const Digest digest = sha256(body);
  for (size_t i = 0; i < digest.size(); ++i) {
    if (header.checksum[2 * i] != digits[digest[i] >> 4] || header.checksum[2 * i + 1] != digits[digest[i] & 15]) return false;
  }
  return true;
}

}  // namespace

void refuse(aclError code, const char* format, ...) {
  char text[768];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  throw ReadError(code, text);
}

namespace {

std::string_view bytes_of(const ModelSource& source, Container& to) {
  if (source.path == nullptr) return {static_cast<const char*>(source.memory), source.bytes};
  to.is_mapped = true;
  return map_file(source.path, to.owner);
}

// The file of the one model that is asked for: all of it, or a part of the bundle.
std::string_view choose_model(const ModelSource& source, std::string_view file) {
  Container all;
  Header header;
  read_file(file, header, all);
  const bool is_bundle = header.model_type == bundle_type;
  if (source.part == ModelSource::whole) {
    if (!is_bundle) return file;
    refuse(ACL_ERROR_GE_PARAM_INVALID, "this is a bundle of %zu models: load it with aclmdlBundleLoadFromFile",
           all.bundled.size());
  }
  if (!is_bundle) refuse(ACL_ERROR_GE_PARAM_INVALID, "this is no bundle but one model: load it with aclmdlLoadFromFile");
  if (source.part >= all.bundled.size()) {
    refuse(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, "the bundle has %zu models, none of the number %zu", all.bundled.size(),
           source.part);
  }
  return all.bundled[source.part];
}

}  // namespace

size_t count_models(const ModelSource& source) {
  Container made;
  Header header;
  read_file(bytes_of(source, made), header, made);
  if (header.model_type == bundle_type) return made.bundled.size();
  refuse(ACL_ERROR_GE_PARAM_INVALID, "this is no bundle but one model: load it with aclmdlLoadFromFile");
}

Container open_container(const ModelSource& source, bool describe) {
  Container made;
  Header header;
  std::string_view file = choose_model(source, bytes_of(source, made));
  if (source.path == nullptr && !describe) file = copy_memory(file.data(), file.size(), made.owner);
  read_file(file, header, made);
  if (header.model_type == bundle_type) refuse(ACL_ERROR_GE_PARAM_INVALID, "a bundle within a bundle");
  if (made.definition.empty()) refuse(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "the model has no definition");
  const auto weights = reinterpret_cast<uintptr_t>(made.weights.data());
  if (!describe && !made.weights.empty() && weights % weight_alignment != 0) {
    refuse(ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED, "the weights do not begin at a multiple of %zu bytes",
           weight_alignment);
  }
  made.intact = is_intact(made.body, header);
  return made;
}

}  // namespace softcann::model
