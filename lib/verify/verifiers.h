// What makes each verifier; verifier_table.cc lists them.
#pragma once

#include <memory>

#include "lib/verify/verifier.h"

namespace buttress {

std::unique_ptr<Verifier> MakeExact(const RewardConfig& config);
std::unique_ptr<Verifier> MakeNumber(const RewardConfig& config);
std::unique_ptr<Verifier> MakeArithmetic(const RewardConfig& config);
std::unique_ptr<Verifier> MakeMath(const RewardConfig& config);
std::unique_ptr<Verifier> MakeCountdown(const RewardConfig& config);

}  // namespace buttress
