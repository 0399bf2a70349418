// Secrets: those that a peer is given and must name again, and those in files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Returns 32 random bytes that nobody can guess.
std::string MakeSecret();

// Returns whether SHA-256(`secret`) is `sha256` (32 bytes). The time that it takes does not depend
// on the content of `secret`.
bool IsSecretOf(std::string_view secret, std::string_view sha256);

// ReadFile for a file with a secret: a key or a token. kInvalidArgument, with the command that
// fixes it, if users other than the owner and the group may read it, or the group may write it.
Result<std::string> ReadSecretFile(const std::string& path, std::int64_t max_bytes);

// Replaces a file that only its owner can read.
Status WriteSecretFile(const std::string& path, const std::string& text);

// Returns the secret (32 bytes) that a file keeps; makes secret and file if there is none.
Result<std::string> KeptSecret(const std::string& path);

}  // namespace buttress
