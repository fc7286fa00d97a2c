// Options of an engine.
#pragma once

#include <map>
#include <string>

#include "hixl/hixl_types.h"

namespace softcann::transfer {

struct Settings {
  // Note [Two kinds of engines]
  // CANN has engines whose connections are communicators of two ranks, and those of clients and servers, which a LocalCommRes of
  // version 1.3, a protocol_desc, or the chip chooses. Here both do the same, but for what each of them accepts: the first
  // copies small pieces by way of a pool of buffers, if it has one, and then takes memory that was never registered for the
  // host's, on both sides.
  bool client_server = false;
  bool buffer_pool = false;
  bool auto_connect = false;
  uint32_t threads = 2, queue = 128;  // of asynchronous connecting

  // With the reason recorded where an option is wrong.
  hixl::Status parse(const char* entry, const std::map<hixl::AscendString, hixl::AscendString>& options);
};

}  // namespace softcann::transfer
