// SHA-256, streamed: what says that weights, groups and checkpoints are what they were.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace buttress {

// Not thread-safe. REQUIRES: no Update after Finish.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);

  // 32 bytes.
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 32 bytes.
std::string Sha256Of(std::string_view bytes);

std::string ToHex(std::string_view bytes);

}  // namespace buttress
