// Copies of files with their digests.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "lib/base/status.h"

namespace buttress {

inline constexpr std::uint64_t kWholeFile = std::numeric_limits<std::uint64_t>::max();

struct CopiedFile {
  std::uint64_t bytes = 0;
  std::string sha256;  // 32 bytes
};

// An open file, which can be copied even after it is deleted. kNotFound if it does not exist.
Result<std::ifstream> OpenForCopy(const std::string& path);

// Writes the first `limit` bytes of `from`, or all, to the new file `to`, durably. Makes the
// folders of `to`.
Result<CopiedFile> CopyFile(std::ifstream& from, const std::string& to,
                            std::uint64_t limit = kWholeFile);

// Returns the size and digest of a file.
Result<CopiedFile> DigestFile(const std::string& path);

}  // namespace buttress
