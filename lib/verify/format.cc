// Verifier format: the tags of run.reward.format.tags in their order. With [think, answer] a
// response must be "<think>...</think> <answer>...</answer>" and nothing else.
//
// If the prompt ends with the first opening tag, as in many chat templates, the response begins
// inside that tag. Tags [think] with free_end are the think format of TRL.
#include <algorithm>

#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

class Format : public Verifier {
 public:
  explicit Format(const FormatConfig& config) : tags_(config.tags), free_end_(config.free_end) {}

  Verdict Verify(const VerifyRequest& request) const override {
    const std::string problem = Problem(Trim(request.prompt), Trim(request.response));
    return problem.empty() && !request.truncated ? Correct("", "")
                                                 : Wrong(problem.empty() ? "cut" : problem, "");
  }

 private:
  // Returns the first fault; empty if there is none.
  std::string Problem(std::string_view prompt, std::string_view rest) const {
    const std::string_view response = rest;
    for (std::size_t i = 0; i < tags_.size(); ++i) {
      const std::string open = "<" + tags_[i] + ">";
      const std::string close = "</" + tags_[i] + ">";
      const bool opened = i == 0 && prompt.ends_with(open);
      if (Count(response, open) != (opened ? 0 : 1)) return open + " does not stand once";
      if (Count(response, close) != 1) return close + " does not stand once";
      if (!opened && !rest.starts_with(open)) return open + " is not where it belongs";
      if (!opened) rest.remove_prefix(open.size());
      const std::size_t end = rest.find(close);
      if (end == std::string_view::npos) return close + " stands before " + open;
      rest = Trim(rest.substr(end + close.size()));
    }
    return free_end_ || rest.empty() ? "" : "text behind the last tag";
  }

  static int Count(std::string_view text, std::string_view part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos;
         at = text.find(part, at + part.size()))
      ++count;
    return count;
  }

  const std::vector<std::string> tags_;
  const bool free_end_;
};

}  // namespace

std::unique_ptr<Verifier> MakeFormat(const RewardConfig& config) {
  return std::make_unique<Format>(config.format);
}

}  // namespace buttress
