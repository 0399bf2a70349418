#include "lib/base/credentials.h"

#include <openssl/crypto.h>

#include "lib/base/digest.h"

namespace buttress {

bool Credentials::Admits(std::string_view authorization) const {
  // Digests have equal lengths, which CRYPTO_memcmp needs for a comparison in constant time.
  const std::string expected = Sha256Of("Bearer " + token), offered = Sha256Of(authorization);
  return !token.empty() && CRYPTO_memcmp(expected.data(), offered.data(), expected.size()) == 0;
}

}  // namespace buttress
