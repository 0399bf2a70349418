// Secrets that a peer is given and must name again.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Returns 32 random bytes that nobody can guess.
std::string MakeSecret();

// Returns whether SHA-256(`secret`) is `sha256` (32 bytes). The time that it takes does not depend
// on the content of `secret`.
bool IsSecretOf(std::string_view secret, std::string_view sha256);

}  // namespace buttress
