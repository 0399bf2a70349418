// Rules of run.reward.
#include <algorithm>
#include <cmath>
#include <string>

#include "lib/config/reward_text.h"
#include "lib/config/rules.h"

namespace buttress {
namespace {

void CheckText(const std::string& key, const std::string& text, Rules& rules) {
  const Status status = CheckRewardText(text);
  rules.Require(status.ok(), "run.reward." + key, text, status.message());
}

void CheckVerifiers(const RewardConfig& reward, Rules& rules) {
  CheckText("verifier", reward.verifier, rules);
  for (const auto& [source, text] : reward.by_source) CheckText("by_source." + source, text, rules);
  if (!reward.second.verifier.empty()) CheckText("second.verifier", reward.second.verifier, rules);
}

void CheckVerifierSettings(const RewardConfig& reward, Rules& rules) {
  rules.OneOf("run.reward.math.mode", reward.math.mode, {"lenient", "strict"});
  rules.Require(!reward.math.anchors.empty(), "run.reward.math.anchors", std::string("[]"),
                "at least one");
  for (const std::string& anchor : reward.math.anchors) {
    const bool known = std::find(std::begin(kMathAnchors), std::end(kMathAnchors), anchor) !=
                       std::end(kMathAnchors);
    rules.Require(known, "run.reward.math.anchors", anchor,
                  "choose of: boxed, final answer is, ####, answer:, whole, last expression");
  }
  const double share = reward.second.share;
  rules.Require(share >= 0 && share <= 1, "run.reward.second.share", share, "in [0, 1]");
  rules.Require(share == 0 || !reward.second.verifier.empty(), "run.reward.second.verifier",
                std::string(), "name a verifier, or leave share at 0");
}

}  // namespace

void CheckReward(const RewardConfig& reward, Rules& rules) {
  const auto between = [&](const std::string& key, std::int64_t value, std::int64_t least,
                           std::int64_t most) {
    rules.Require(value >= least && value <= most, "run.reward." + key, value,
                  "between " + std::to_string(least) + " and " + std::to_string(most));
  };
  constexpr std::int64_t kDayMs = 86400000;
  CheckVerifiers(reward, rules);
  CheckVerifierSettings(reward, rules);
  between("threads", reward.threads, 1, 1024);
  between("timeout_ms", reward.timeout_ms, 1, kDayMs);
  rules.Require(std::isfinite(reward.correct_from), "run.reward.correct_from", reward.correct_from,
                "a finite number");
  rules.Require(!reward.format.tags.empty(), "run.reward.format.tags", std::string("[]"),
                "name a tag or more: [think, answer]");
  rules.OneOf("run.reward.length.unit", reward.length.unit, {"words", "characters", "tokens"});
  between("length.min", reward.length.min, 0, reward.length.max);
  between("length.overlong_tokens", reward.length.overlong_tokens, 0, kMaxTokens);
  between("length.overlong_buffer", reward.length.overlong_buffer, 0,
          reward.length.overlong_tokens);
  rules.OneOf("run.reward.code.language", reward.code.language, {"python", "cpp"});
  between("code.cpu_seconds", reward.code.cpu_seconds, 1, 3600);
  between("code.wall_ms", reward.code.wall_ms, 1, kDayMs);
  between("code.compile_ms", reward.code.compile_ms, 1, kDayMs);
  between("code.memory_mb", reward.code.memory_mb, 64, 1 << 20);
  between("code.disk_mb", reward.code.disk_mb, 1, 1 << 20);
  between("code.output_kb", reward.code.output_kb, 1, 1 << 20);
  between("code.processes", reward.code.processes, 4, 4096);
  between("python.workers", reward.python.workers, 1, 1024);
  between("python.batch", reward.python.batch, 1, 4096);
  between("python.start_ms", reward.python.start_ms, 1, kDayMs);
  between("http.batch", reward.http.batch, 1, 4096);
  between("http.attempts", reward.http.attempts, 1, 100);
}

}  // namespace buttress
