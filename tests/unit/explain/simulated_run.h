// Simulates runs of a trainer that learns: prompts of two sources with success rates, a policy, a
// sampler, a verifier, and at most one fault in them.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/text/random.h"
#include "lib/explain/post_mortem.h"

namespace buttress {

enum class Injected {
  kNothing,
  kDeadVerifier,  // of one source, from the middle of the run
  kFlaky,         // every reward of a group is 0, in one group of five
  kWrongFormat,   // one source is never right, since no completion has the form of an answer
  kTruncation,    // six of ten completions are cut, from the middle on
  kDuplicates,    // groups hold copies of two completions, from the middle on
  kModeCollapse,  // one text with few changes is left, from the middle on
  kLabelNoise,    // 15 % of the verdicts are turned round
  kTooEasy,       // rates of 0.97 and above
  kTooHard,       // rates of 0.02 and below
  kFloatNoise,    // equal rewards differ by rounding
  kStaleWeights,  // completions come from weights 20 steps old
  // Of runs with episodes, from the middle on:
  kFailingTool,  // a tool is down, which four of five calls need
  kUnreadable,   // four of five calls are in a form that is not read
  kLoops,        // four of five answers repeat an earlier one
  kLimit,        // seven of ten episodes end at the limit of tool calls
};

struct InjectedInfo {
  Injected fault;
  std::string_view name;
  std::string_view conclusion;  // the right one
  // Also right: where a second verifier reads the texts, a group of zeros is seen to be the
  // verifier's.
  std::string_view other = {};
};

inline constexpr InjectedInfo kInjected[] = {
    {Injected::kNothing, "nothing", "nothing broken"},
    {Injected::kDeadVerifier, "dead verifier", "verifier constant"},
    {Injected::kFlaky, "flaky verifier, 20 %", "against history", "verifier constant"},
    {Injected::kWrongFormat, "wrong format", "never right"},
    {Injected::kTruncation, "truncation", "truncated"},
    {Injected::kDuplicates, "duplicates", "duplicate samples"},
    {Injected::kModeCollapse, "mode collapse", "mode-collapsed"},
    {Injected::kLabelNoise, "label noise, 15 %", "label noise"},
    {Injected::kTooEasy, "too easy", "too easy"},
    {Injected::kTooHard, "too hard", "too hard"},
    {Injected::kFloatNoise, "float noise", "float noise"},
    {Injected::kStaleWeights, "stale weights", "stale weights"},
    {Injected::kFailingTool, "failing tool", "failing tools"},
    {Injected::kUnreadable, "unreadable calls", "unreadable calls"},
    {Injected::kLoops, "loops", "loops"},
    {Injected::kLimit, "limit of tool calls", "episode limit"},
};

// The report of a run of 40 steps. The seed decides what runs differ in: 8 to 32 groups a step of 4
// to 16 completions, whether prompts return after 5 or 10 steps or never, how fast the policy
// learns, whether there are log-probs and a second verifier, and whether completions are episodes
// with tools, in which one call of ten fails, one of forty cannot be read and one answer of twenty
// is repeated. With a flaky verifier prompts return, with label noise there is a second verifier.
// Pure.
Report SimulateRun(Injected fault, std::uint64_t seed);

}  // namespace buttress
