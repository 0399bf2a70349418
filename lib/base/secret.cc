#include "lib/base/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "lib/base/check.h"
#include "lib/base/digest.h"

namespace buttress {
namespace {

constexpr std::size_t kSecretBytes = 32;

}  // namespace

std::string MakeSecret() {
  std::string secret(kSecretBytes, '\0');
  const int made = ::RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()),
                                static_cast<int>(secret.size()));
  BUTTRESS_CHECK(made == 1, "the random generator of OpenSSL has a source");
  return secret;
}

bool IsSecretOf(std::string_view secret, std::string_view sha256) {
  const std::string offered = Sha256Of(secret);
  return sha256.size() == offered.size() &&
         CRYPTO_memcmp(offered.data(), sha256.data(), sha256.size()) == 0;
}

}  // namespace buttress
