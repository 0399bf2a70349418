// Settings of the math verifier and of the second verifier: sections of run.reward.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/choice.h"

namespace buttress {

// When two answers are the same (lib/verify/math/equal.h).
enum class MathMode : std::uint8_t { kLenient, kStrict };

template <>
inline constexpr ChoiceRow<MathMode> kChoices<MathMode>[] = {
    {MathMode::kLenient, "lenient"},
    {MathMode::kStrict, "strict"},
};

// The ways of finding an answer in a text (lib/verify/math/answer.h), in the default order.
inline constexpr std::string_view kMathAnchors[] = {
    "boxed", "final answer is", "####", "answer:", "whole", "last expression"};

struct MathConfig {
  MathMode mode = MathMode::kLenient;
  std::vector<std::string> anchors{std::begin(kMathAnchors), std::end(kMathAnchors)};

  template <class V>
  void Visit(V& v) {
    v("mode", mode, "when two answers are the same");
    v("anchors", anchors, "places where the answer of a response is looked for, in this order");
  }
};

struct SecondVerifierConfig {
  std::string verifier;
  double share = 0.0;

  template <class V>
  void Visit(V& v) {
    v("verifier", verifier,
      "an independent verifier; /metrics compares its verdicts with those of the first, and they "
      "are never trained on; empty: none");
    v("share", share, "share of completions that it scores, in [0, 1]");
  }
};

}  // namespace buttress
