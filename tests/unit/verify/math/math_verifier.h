// The math verifier with its defaults.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "lib/verify/verifier.h"

namespace buttress {

inline std::unique_ptr<Verifier> MathVerifier() {
  Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("math", RewardConfig{});
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return *std::move(verifier);
}

}  // namespace buttress
