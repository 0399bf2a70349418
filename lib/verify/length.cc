// Verifiers length and overlong.
//
// `length` rewards 1 if the length of the response is between two bounds, else 0.
//
// `overlong` is the soft overlong punishment of DAPO (arXiv 2503.14476, eq. 13). For a response of
// y tokens with L = overlong_tokens and c = overlong_buffer, the reward is
//
//   0                  if y <= L - c
//   ((L - c) - y) / c  if L - c < y <= L
//   -1                 if y > L
//
// The outcome is correct for a reward of 0, else wrong. It is meant as a part of a sum: math +
// overlong.
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr char kNoTokens[] = "tokens: not known of a text; only completions of a run have them";

std::int64_t CountWords(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!space && !inside) ++words;
    inside = !space;
  }
  return words;
}

// Counts code points, by their leading bytes.
std::int64_t CountCharacters(std::string_view text) {
  std::int64_t characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return characters;
}

class Length : public Verifier {
 public:
  explicit Length(const LengthConfig& config) : config_(config) {}

  Verdict Verify(const VerifyRequest& request) const override {
    if (config_.unit == LengthUnit::kTokens && request.tokens < 0) return Unscorable(kNoTokens);
    const std::int64_t length = config_.unit == LengthUnit::kTokens ? request.tokens
                                : config_.unit == LengthUnit::kWords
                                    ? CountWords(request.response)
                                    : CountCharacters(request.response);
    const std::string given = std::to_string(length) + " " + std::string(ChoiceName(config_.unit));
    const std::string gold = std::to_string(config_.min) + " to " + std::to_string(config_.max);
    return config_.min <= length && length <= config_.max ? Correct(given, gold)
                                                          : Wrong(given, gold);
  }

 private:
  const LengthConfig config_;
};

class Overlong : public Verifier {
 public:
  explicit Overlong(const LengthConfig& config)
      : free_(config.overlong_tokens - config.overlong_buffer), limit_(config.overlong_tokens) {}

  Verdict Verify(const VerifyRequest& request) const override {
    if (request.tokens < 0) return Unscorable(kNoTokens);
    const std::string given = std::to_string(request.tokens) + " tokens";
    const std::string gold = "at most " + std::to_string(free_);
    if (request.tokens <= free_) {
      Verdict verdict = Correct(given, gold);
      verdict.raw_reward = 0;
      return verdict;
    }
    Verdict verdict = Wrong(given, gold);
    verdict.raw_reward = request.tokens > limit_ ? -1
                                                 : static_cast<double>(free_ - request.tokens) /
                                                       static_cast<double>(limit_ - free_);
    return verdict;
  }

 private:
  const std::int64_t free_;
  const std::int64_t limit_;
};

}  // namespace

std::unique_ptr<Verifier> MakeLength(const RewardConfig& config) {
  return std::make_unique<Length>(config.length);
}

Result<std::unique_ptr<Verifier>> MakeOverlong(const RewardConfig& config) {
  if (config.length.overlong_tokens > 0)
    return std::unique_ptr<Verifier>(std::make_unique<Overlong>(config.length));
  return InvalidArgument(
      "run.reward.length.overlong_tokens = 0: verifier overlong needs the number of tokens that is "
      "too many");
}

}  // namespace buttress
