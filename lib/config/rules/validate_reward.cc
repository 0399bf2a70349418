// Rules of run.reward.
#include <algorithm>
#include <string>
#include <vector>

#include "lib/config/forms/reward_text.h"
#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

void CheckVerifiers(const RewardConfig& reward, Rules& rules) {
  const auto check = [&](const std::string& key, const std::string& text) {
    const Status status = CheckRewardText(text);
    rules.Require(status.ok(), key, text, status.message());
  };
  check("verifier", reward.verifier);
  for (const auto& [source, text] : reward.by_source) check("by_source." + source, text);
  const SecondVerifierConfig& second = reward.second;
  if (!second.verifier.empty()) check("second.verifier", second.verifier);
  rules.Between("second.share", second.share, 0, 1);
  rules.Require(second.share == 0 || !second.verifier.empty(), "second.verifier", second.verifier,
                "name a verifier, or leave share at 0");
}

void CheckNoise(const RewardNoiseConfig& noise, Rules& rules) {
  rules.Between("noise.false_positive", noise.false_positive, 0, 1);
  rules.Between("noise.false_negative", noise.false_negative, 0, 1);
}

void CheckMath(const MathConfig& math, Rules& rules) {
  rules.Require(!math.anchors.empty(), "math.anchors", std::string("[]"), "name one or more");
  for (const std::string& anchor : math.anchors) {
    const bool known = std::ranges::find(kMathAnchors, anchor) != std::end(kMathAnchors);
    rules.Require(known, "math.anchors", anchor, "is unknown" + SuggestNames(anchor, kMathAnchors));
  }
}

bool UsesCode(const RewardConfig& reward) {
  const auto names_code = [](const std::string& text) {
    const Result<std::vector<SumTerm>> terms = ParseSum(text);
    return terms.ok() && std::ranges::find(*terms, "code", &SumTerm::name) != terms->end();
  };
  return names_code(reward.verifier) ||
         std::ranges::any_of(reward.by_source,
                             [&](const auto& entry) { return names_code(entry.second); });
}

// A limit that another limit always precedes is a mistake.
void CheckCodeTimes(const RewardConfig& reward, Rules& rules) {
  if (!UsesCode(reward)) return;
  const CodeConfig& code = reward.code;
  rules.Require(code.cpu_seconds * 1000 <= code.wall_ms, "code.cpu_seconds", code.cpu_seconds,
                "at most code.wall_ms, which is " + std::to_string(code.wall_ms) +
                    "; a process cannot use more CPU time than that");
  rules.Require(code.wall_ms <= reward.timeout_ms, "code.wall_ms", code.wall_ms,
                "at most timeout_ms, which is " + std::to_string(reward.timeout_ms) +
                    " for all tests of a completion");
}

}  // namespace

Rules CheckReward(const RewardConfig& reward) {
  Rules rules("run.reward.");
  CheckVerifiers(reward, rules);
  CheckNoise(reward.noise, rules);
  CheckMath(reward.math, rules);
  rules.Between("threads", reward.threads, 1, 1024);
  rules.Between("timeout_ms", reward.timeout_ms, 1, kDayMs);
  rules.Finite("correct_from", reward.correct_from);
  rules.Require(!reward.format.tags.empty(), "format.tags", std::string("[]"),
                "name a tag or more: [think, answer]");
  rules.Between("length.min", reward.length.min, 0, reward.length.max);
  rules.Between("length.overlong_tokens", reward.length.overlong_tokens, 0, kMaxTokens);
  rules.Between("length.overlong_buffer", reward.length.overlong_buffer, 0,
                reward.length.overlong_tokens);
  rules.Between("code.cpu_seconds", reward.code.cpu_seconds, 1, 3600);
  rules.Between("code.wall_ms", reward.code.wall_ms, 1, kDayMs);
  rules.Between("code.compile_ms", reward.code.compile_ms, 1, kDayMs);
  rules.Between("code.memory_mb", reward.code.memory_mb, 64, 1 << 20);
  rules.Between("code.disk_mb", reward.code.disk_mb, 1, 1 << 20);
  rules.Between("code.output_kb", reward.code.output_kb, 1, 1 << 20);
  rules.Between("code.processes", reward.code.processes, 4, 4096);
  CheckCodeTimes(reward, rules);
  rules.Between("python.workers", reward.python.workers, 1, 1024);
  rules.Between("python.batch", reward.python.batch, 1, 4096);
  rules.Between("python.start_ms", reward.python.start_ms, 1, kDayMs);
  rules.Between("python.restart_after", reward.python.restart_after, 0, 1 << 20);
  rules.Between("python.memory_mb", reward.python.memory_mb, 0, 1 << 20);
  rules.Between("http.batch", reward.http.batch, 1, 4096);
  rules.Between("http.attempts", reward.http.attempts, 1, 100);
  return rules;
}

}  // namespace buttress
