// A file with a secret, which only its owner may read.
#pragma once

#include <filesystem>
#include <string>

#include "lib/base/os/file.h"

namespace buttress {

inline Status WriteSecret(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  const std::string made = path + ".made";  // a reader never sees it with another mode
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(made, text));
  fs::permissions(made, fs::perms::owner_read | fs::perms::owner_write);
  fs::rename(made, path);
  return OkStatus();
}

}  // namespace buttress
