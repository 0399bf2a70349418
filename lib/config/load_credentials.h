// Reads the files of local.security.
#pragma once

#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/config/security_config.h"

namespace buttress {

// The credentials of every port and connection; empty if local.security names no file.
// kInvalidArgument names the file and the reason: missing, not PEM, the key of another certificate,
// expired, signed by another authority, a token that is too short or not valid in a header.
Result<Credentials> LoadCredentials(const SecurityConfig& config);

}  // namespace buttress
