// SHA-256, which identifies the content of weights, groups and checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace buttress {

// Hashes a stream of bytes. Not thread-safe. REQUIRES: neither Update nor Finish after Finish.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);

  // Returns the digest, 32 bytes.
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Returns the digest of `bytes`, 32 bytes.
std::string Sha256Of(std::string_view bytes);

// Two lower-case hexadecimal digits a byte.
std::string ToHex(std::string_view bytes);

}  // namespace buttress
