#include "lib/base/credentials.h"

#include <openssl/crypto.h>

#include "lib/base/digest.h"

namespace buttress {

bool Credentials::Admits(std::string_view authorization) const {
  // Digests, because memory of different lengths cannot be compared in constant time.
  const std::string expected = Sha256Of("Bearer " + token), offered = Sha256Of(authorization);
  return !token.empty() && CRYPTO_memcmp(expected.data(), offered.data(), expected.size()) == 0;
}

}  // namespace buttress
