// The numbers that operations get at the time of the client's call: the same on all ranks, since all call the same.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/operation.h"

namespace softcann {

class Numbering {
 public:
  explicit Numbering(uint32_t ranks) : ranks_(ranks), next_message_(2 * size_t{ranks}) {}

  // Collectives are counted together; messages by direction and peer, who counts his side of them alike.
  void number(Operation& operation) {
    if (operation.messages.empty()) operation.number = next_collective_++;
    for (Message& message : operation.messages) {
      message.number = next_message_[(message.send ? 0 : ranks_) + message.peer]++;
      operation.number = message.number;
    }
  }

 private:
  uint32_t ranks_;
  uint64_t next_collective_ = 0;
  std::vector<uint64_t> next_message_;
};

}  // namespace softcann
