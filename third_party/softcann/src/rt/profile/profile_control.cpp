#include "rt/profile/profile_control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "rt/base/error.h"
#include "rt/base/log.h"
#include "rt/profile/collector.h"

namespace softcann {
namespace {

constexpr size_t kLongestLine = 8192;

std::string last_error() {
  std::string line = take_recent_error();
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return line;
}

// The program's signal handlers are for its own threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

template <class Function>
aclError begin_thread(const char* what, Function function) {
  try {
    std::thread([function] {
      block_signals();
      function();
    }).detach();
    return ACL_SUCCESS;
  } catch (const std::system_error& error) {
    return fail(ACL_ERROR_PROFILING_FAILURE, "no thread for %s: %s", what, error.what());
  }
}

void record_later() {
  std::this_thread::sleep_for(std::chrono::seconds(options().profile_delay));
  aclError code = recorder::start(options().profile, {});
  if (code == ACL_SUCCESS && options().profile_duration != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(options().profile_duration));
    code = recorder::stop();
  }
  // Not running: the program has just ended, which stops it too.
  if (code != ACL_SUCCESS && code != ACL_ERROR_PROF_NOT_RUN) std::fprintf(stderr, "softcann: %s\n", last_error().c_str());
}

void stop_later() {
  std::this_thread::sleep_for(std::chrono::seconds(options().profile_duration));
  const aclError code = recorder::stop();
  if (code != ACL_SUCCESS && code != ACL_ERROR_PROF_NOT_RUN) std::fprintf(stderr, "softcann: %s\n", last_error().c_str());
}

bool may_command(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

// *recording: whether this connection has started what is recorded.
std::string obey(const std::string& line, bool* recording) {
  constexpr char kStart[] = "start ";
  const bool starts = line.starts_with(kStart);
  if (!starts && line != "stop") return "error: expected start FOLDER, or stop\n";
  const aclError code = starts ? recorder::start(line.substr(sizeof kStart - 1), {}) : recorder::stop();
  if (starts ? code == ACL_SUCCESS : true) *recording = starts;
  return code == ACL_SUCCESS ? "ok\n" : "error: " + last_error() + "\n";
}

void converse(int connection) {
  std::string text;
  bool recording = false;
  char part[4096];
  for (ssize_t got; text.size() < kLongestLine && (got = read(connection, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(got));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const std::string answer = obey(text.substr(0, end), &recording);
      if (send(connection, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
    }
  }
  if (recording) recorder::stop();
}

void serve(int listener) {
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (may_command(connection)) converse(connection);
    close(connection);
  }
}

aclError listen_to_msprof() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Abstract: the name begins with a zero, and nothing stays behind.
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "softcann-profile-%d", getpid());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(listener, 4) != 0) {
    const int error = errno;
    if (listener >= 0) close(listener);
    return fail(ACL_ERROR_PROFILING_FAILURE, "PROFILING_MODE=dynamic: no socket for msprof: %s", std::strerror(error));
  }
  return begin_thread("PROFILING_MODE=dynamic", [listener] { serve(listener); });
}

}  // namespace

aclError begin_profile_control() {
  const Options& asked = options();
  if (asked.profiling_mode == "dynamic") {
    if (const aclError code = listen_to_msprof()) return code;
  } else if (!asked.profiling_mode.empty()) {
    SOFTCANN_LOG(ACL_WARNING, "PROFILING", "PROFILING_MODE=%s has no effect here; dynamic lets msprof attach",
                 asked.profiling_mode.c_str());
  }
  if (asked.profile.empty()) return ACL_SUCCESS;
  if (asked.profile_delay != 0) return begin_thread("SOFTCANN_PROF_DELAY", record_later);
  if (const aclError code = recorder::start(asked.profile, {})) return code;
  return asked.profile_duration != 0 ? begin_thread("SOFTCANN_PROF_DURATION", stop_later) : ACL_SUCCESS;
}

}  // namespace softcann
