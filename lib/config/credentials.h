// From the files of local.security to what ports and connections use.
#pragma once

#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/config/security_config.h"

namespace buttress {

// Empty if no file is named. kInvalidArgument names the file and what is wrong with it: not there,
// not PEM, a key of another certificate, expired, signed by another authority, a token that is too
// short or cannot stand in a header.
Result<Credentials> LoadCredentials(const SecurityConfig& config);

}  // namespace buttress
