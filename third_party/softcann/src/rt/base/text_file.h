// Files of text that clients give: configurations, rank tables.
#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace softcann {

// The file's text, or somewhat more than `most` bytes of a longer one, read in pieces so that a short file costs little. Nothing
// where it cannot be read.
inline std::optional<std::string> read_text_file(const char* path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  char piece[65536];
  do {
    file.read(piece, sizeof piece);
    text.append(piece, static_cast<size_t>(file.gcount()));
  } while (file.gcount() > 0 && text.size() <= most);
  if (file.bad()) return std::nullopt;
  return text;
}

}  // namespace softcann
