// Where an engine is found: by its name, address:port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/socket.h"

namespace softcann::transfer {

struct EngineName {
  Address address;   // family, bytes, and the port if there is one
  std::string text;  // the same for each way to write the address
  bool listens() const { return address.port != 0; }

  // None when the text is no name. A port that is not above 0 is none.
  static std::optional<EngineName> parse(const std::string& text);
};

// Note [Who may connect]
// Engines meet at a socket whose name has the engine's and the user's number. Such a name is no file and vanishes with the
// process. Both sides ask the kernel whose process the other is and speak to their own user's alone: what an engine has
// registered can be read and overwritten by whoever connects. Engines of other machines are not reached.
// The port itself is bound, so that it is taken for all others, and an address that is not this machine's is an error as with
// CANN; nobody listens there.
struct Door {
  Socket port, meeting;
  // Without sockets, and *reason says why, when the name is taken or not of this machine.
  static Door open(const EngineName& name, std::string* reason);
};

enum class Knock { open, refused, late, stranger };
// Connects to the engine of that name.
Knock knock(const EngineName& name, int64_t deadline_ns, Socket* socket);

}  // namespace softcann::transfer
