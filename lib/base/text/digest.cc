#include "lib/base/text/digest.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// Cached, because the lookup costs as much as hashing some kilobytes.
const EVP_MD* Algorithm() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  BUTTRESS_CHECK(algorithm != nullptr, "SHA-256 is not available in OpenSSL");
  return algorithm;
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  BUTTRESS_CHECK(EVP_DigestInit_ex(context_.get(), Algorithm(), nullptr) == 1,
                 "SHA-256: EVP_DigestInit_ex failed");
}

void Sha256::Update(std::string_view bytes) {
  BUTTRESS_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
                 "SHA-256: EVP_DigestUpdate failed");
}

std::string Sha256::Finish() {
  std::string digest(32, '\0');
  BUTTRESS_CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                    nullptr) == 1,
                 "SHA-256: EVP_DigestFinal_ex failed");
  return digest;
}

std::string Sha256Of(std::string_view bytes) {
  std::string digest(32, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(digest.data());
  BUTTRESS_CHECK(EVP_Digest(bytes.data(), bytes.size(), out, nullptr, Algorithm(), nullptr) == 1,
                 "SHA-256: EVP_Digest failed");
  return digest;
}

std::string ToHex(std::string_view bytes) {
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

}  // namespace buttress
