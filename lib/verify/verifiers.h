// The factory of each verifier. verifier_table.cc lists them.
#pragma once

#include <memory>
#include <vector>

#include "lib/config/reward_text.h"
#include "lib/verify/verifier.h"

namespace buttress {

// These verify in the calling thread, in time linear in the response.
std::unique_ptr<Verifier> MakeExact(const RewardConfig& config);
std::unique_ptr<Verifier> MakeNumber(const RewardConfig& config);
std::unique_ptr<Verifier> MakeArithmetic(const RewardConfig& config);
std::unique_ptr<Verifier> MakeMath(const RewardConfig& config);
std::unique_ptr<Verifier> MakeCountdown(const RewardConfig& config);
std::unique_ptr<Verifier> MakeNormalized(const RewardConfig& config);
std::unique_ptr<Verifier> MakeChoice(const RewardConfig& config);
std::unique_ptr<Verifier> MakeFormat(const RewardConfig& config);
std::unique_ptr<Verifier> MakeLength(const RewardConfig& config);
Result<std::unique_ptr<Verifier>> MakeOverlong(const RewardConfig& config);
std::unique_ptr<Verifier> MakeJsonSchema(const RewardConfig& config);
std::unique_ptr<Verifier> MakeInstructions(const RewardConfig& config);

// These verify in other processes or on another machine.
Result<std::unique_ptr<Verifier>> MakeCode(const RewardConfig& config);
Result<std::unique_ptr<Verifier>> MakePython(const RewardConfig& config, std::string_view argument);
Result<std::unique_ptr<Verifier>> MakeHttp(const RewardConfig& config);

// One part of a weighted sum.
struct WeightedVerifier {
  SumTerm term;
  std::unique_ptr<Verifier> verifier;
};

// Combines verifiers as a weighted sum (lib/config/reward_text.h).
//
// The first part determines the outcome, raw reward and answers of the verdict, so that shaping
// never changes which groups count as collapsed. Verdict::parts holds the reward and weight of
// every part, and ShapedReward adds them up. An unscorable part makes the whole verdict unscorable.
std::unique_ptr<Verifier> MakeWeightedSum(std::vector<WeightedVerifier> parts);

}  // namespace buttress
