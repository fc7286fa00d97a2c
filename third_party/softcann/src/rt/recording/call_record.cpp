#include "rt/recording/call_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "fault/lifecycle.h"
#include "rt/memory/memory.h"
#include "rt/base/options.h"
#include "rt/runtime.h"
#include "rt/base/sha256.h"
#include "rt/stream/stream.h"

namespace softcann::call_record {

const bool on = !options().record.empty();

namespace {

struct Output {
  std::mutex mutex;
  std::FILE* file = nullptr;
  bool failed = false;
  uint64_t next = 0;
};

Output& output() {
  static auto* instance = new Output;
  return *instance;
}

thread_local bool wrote = false;

void give_up(Output* out, const std::string& path) {
  out->failed = true;
  std::fprintf(stderr, "softcann: SOFTCANN_RECORD ends here: %s: %s\n", path.c_str(), std::strerror(errno));
}

// Another process that lives may have the name: then the number of this one goes behind it.
void open_output(Output* out) {
  std::string path = options().record;
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    path += '.' + std::to_string(getpid());
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  if (file < 0 || ftruncate(file, 0) != 0 || (out->file = fdopen(file, "wb")) == nullptr) return give_up(out, path);
  std::fprintf(out->file, "{\"softcann_record\":1,\"soc\":\"%s\",\"devices\":%d,\"program\":\"%s\",\"pid\":%d}\n",
               options().soc.c_str(), static_cast<int>(options().device_count), program_invocation_short_name, getpid());
}

std::string at(const char* key, const void* p) {
  return std::string("\"") + key + "\":" + std::to_string(place(p)) + ",\"" + key +
         "_device\":" + std::to_string(device_of(client_address(p)));
}

}  // namespace

int64_t place(const void* p) {
  const void* client = client_address(p);
  return is_device_pointer(client) ? static_cast<int64_t>(reinterpret_cast<uintptr_t>(client) - device_window.base.load()) : -1;
}

std::string digest(const void* data, size_t bytes) {
  const Digest whole = sha256({static_cast<const char*>(data), bytes});
  char text[17];
  for (int i = 0; i < 8; ++i) std::snprintf(text + 2 * i, 3, "%02x", whole[i]);
  return text;
}

void write(const std::string& fields, const void* payload, size_t bytes) {
  if (fault::in_forked_child()) return;
  wrote = true;
  Output& out = output();
  std::lock_guard<std::mutex> lock(out.mutex);
  if (out.failed) return;
  if (out.file == nullptr) open_output(&out);
  if (out.failed) return;
  const uint64_t number = out.next++;
  bool good = std::fprintf(out.file, "{\"n\":%llu,", static_cast<unsigned long long>(number)) > 0 &&
              std::fputs(fields.c_str(), out.file) >= 0;
  if (payload != nullptr) good = good && std::fprintf(out.file, ",\"payload\":%zu", bytes) > 0;
  good = good && std::fputs("}\n", out.file) >= 0;
  if (payload != nullptr) good = good && std::fwrite(payload, 1, bytes, out.file) == bytes;
  if (!good || std::fflush(out.file) != 0) give_up(&out, options().record);
}

void copy(const char* entry, const void* dst, const void* src, size_t bytes) {
  const bool to = place(dst) >= 0, from = place(src) >= 0;
  const std::string name = std::string("\"kind\":\"copy\",\"entry\":\"") + entry + "\",\"bytes\":" + std::to_string(bytes);
  if (to && from) {
    write(name + ',' + at("to", dst) + ',' + at("from", src));
  } else if (to) {
    write(name + ',' + at("to", dst), dst, bytes);
  } else if (from) {
    write(name + ',' + at("from", src) + ",\"digest\":\"" + digest(dst, bytes) + '"');
  } else {
    wrote = true;  // between two places of the host: nothing to do again
  }
}

void fill(const char* entry, const void* dst, size_t bytes, int value) {
  if (place(dst) < 0) return;
  write(std::string("\"kind\":\"fill\",\"entry\":\"") + entry + "\",\"bytes\":" + std::to_string(bytes) +
        ",\"value\":" + std::to_string(value) + ',' + at("to", dst));
}

void outside(const char* entry, const void* dst, size_t bytes) {
  if (place(dst) < 0 || bytes == 0) return;
  write(std::string("\"kind\":\"outside\",\"entry\":\"") + entry + "\",\"bytes\":" + std::to_string(bytes) + ',' + at("to", dst),
        dst, bytes);
}

int device() { return Stream::running() != nullptr ? Stream::running()->context->device->id : -1; }

int stream() { return Stream::running() != nullptr ? Stream::running()->id : -1; }

void begin_task() { wrote = false; }

void end_task(const char* name) {
  if (!wrote) write(std::string("\"kind\":\"unknown\",\"entry\":\"") + name + '"');
}

}  // namespace softcann::call_record
