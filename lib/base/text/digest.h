// SHA-256, which identifies the content of weights, groups and checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // EVP_MD_CTX of OpenSSL

namespace buttress {

// Hashes a stream of bytes. Not thread-safe. REQUIRES: neither Update nor Finish after Finish.
class Sha256 {
 public:
  Sha256();

  void Update(std::string_view bytes);

  // Returns the digest, 32 bytes.
  std::string Finish();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// Returns the digest of `bytes`, 32 bytes.
std::string Sha256Of(std::string_view bytes);

// Two lower-case hexadecimal digits a byte.
std::string ToHex(std::string_view bytes);

}  // namespace buttress
