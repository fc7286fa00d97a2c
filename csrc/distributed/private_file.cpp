#include "distributed/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <c10/util/Logging.h>

namespace torch_npu::distributed {
namespace {

// Empty, with the reason in *why, if it cannot be had.
std::string private_folder(std::string* why) {
  const auto path = "/tmp/torch_npu-" + std::to_string(geteuid());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    *why = std::strerror(errno);
    return {};
  }
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    *why = path + " is not a folder of this user alone; remove it, or set TORCH_HCCL_DEBUG_INFO_TEMP_FILE";
    return {};
  }
  return path + "/";
}

bool write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const auto written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

std::string write_private_file(const std::string& start, const std::string& name, const std::string& text,
                               const std::string& usual) {
  std::string why;
  const auto folder = start.empty() ? private_folder(&why) : std::string();
  const auto path = start.empty() ? folder + usual + name : start + name;
  if (why.empty()) {
    // Complete or not at all: it is renamed when it is written.
    const auto part = path + "." + std::to_string(getpid()) + ".part";
    unlink(part.c_str());
    const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = file >= 0 && write_all(file, text);
    if (file >= 0) written = close(file) == 0 && written;
    if (written && std::rename(part.c_str(), path.c_str()) == 0) return path;
    why = std::strerror(errno);
    unlink(part.c_str());
  }
  LOG(ERROR) << "[hccl] could not write " << path << ": " << why;
  return {};
}

}  // namespace torch_npu::distributed
