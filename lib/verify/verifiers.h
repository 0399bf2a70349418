// What each verifier runs. verifier_table.cc lists them.
#pragma once

#include <memory>
#include <string_view>

#include "lib/config/reward_text.h"
#include "lib/verify/verifier.h"

namespace buttress {

// These verify in the calling thread, in time linear in the response.
using JudgeFunction = Verdict(const VerifyRequest& request, const RewardConfig& config);
JudgeFunction JudgeExact;
JudgeFunction JudgeNumber;
JudgeFunction JudgeArithmetic;
JudgeFunction JudgeMath;
JudgeFunction JudgeCountdown;
JudgeFunction JudgeNormalized;
JudgeFunction JudgeChoice;
JudgeFunction JudgeFormat;
JudgeFunction JudgeLength;
JudgeFunction JudgeOverlong;
JudgeFunction JudgeJsonSchema;
JudgeFunction JudgeInstructions;

// These verify in other processes or on another machine.
Result<std::unique_ptr<Verifier>> MakeCode(const RewardConfig& config);
Result<std::unique_ptr<Verifier>> MakePython(const RewardConfig& config, std::string_view argument);
Result<std::unique_ptr<Verifier>> MakeHttp(const RewardConfig& config);

}  // namespace buttress
