// Compares sampled log-probs with those of the learner.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/policy/decode/generator.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"
#include "tests/unit/policy/golden.h"

namespace buttress {

inline std::vector<std::int32_t> PromptOf(std::int32_t first, std::int32_t length,
                                          std::int32_t vocab = 126) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < length; ++i) prompt.push_back((first + 7 * i * i) % vocab);
  return prompt;
}

// Returns the largest difference between the recorded log-probs and those of the learner's forward
// pass, from `first_token` on.
inline double TeacherForcedError(Transformer& model, const std::vector<std::int32_t>& prompt,
                                 const GeneratedSequence& sequence, double temperature,
                                 std::size_t first_token = 0) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), sequence.token_ids.begin(), sequence.token_ids.end());
  const std::int64_t length = static_cast<std::int64_t>(tokens.size());
  const at::Tensor ids = TokensOf(tokens);
  const at::Tensor hidden = model.Hidden(ids, std::span(&length, 1));
  const auto out = ScoreTokens(model, hidden.narrow(0, 0, length - 1), ids.narrow(0, 1, length - 1),
                               {temperature});
  double worst = 0;
  for (std::size_t t = first_token; t < sequence.logprobs.size(); ++t) {
    const double expected =
        out.logprobs_M[static_cast<std::int64_t>(prompt.size() + t) - 1].item<double>();
    worst = std::max(worst, std::abs(expected - static_cast<double>(sequence.logprobs[t])));
  }
  return worst;
}

}  // namespace buttress
