#include "lib/chat/guess.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/chat/tool_calls.h"
#include "rollout_worker/environments/environments.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// Returns the last whole number of `text`; nullopt if there is none. One that is too large is the
// largest.
std::optional<std::int64_t> LastNumber(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t last = text.find_last_of(kDigits);
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t before = text.find_last_not_of(kDigits, last);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data() + begin, text.data() + last + 1, number);
  if (read.ec != std::errc()) number = std::numeric_limits<std::int64_t>::max();
  return begin > 0 && text[begin - 1] == '-' ? -number : number;
}

class GuessEnvironment : public Environment {
 public:
  GuessEnvironment(ordered_json opening, std::int64_t number)
      : opening_(std::move(opening)), number_(number) {}

  ordered_json messages() const override { return opening_; }

  Result<EnvironmentReply> Reply(const AssistantMessage& answer,
                                 std::int64_t /*deadline_ms*/) override {
    const std::optional<std::int64_t> guess = LastNumber(BehindThoughts(answer.content));
    const std::string_view hint = GuessHint(guess, number_);
    EnvironmentReply reply;
    reply.turn_reward = hint.empty() ? 1 : 0;
    reply.reward = reply.turn_reward;
    if (!hint.empty()) reply.messages.push_back({{"role", "user"}, {"content", hint}});
    return reply;
  }

 private:
  const ordered_json opening_;
  const std::int64_t number_;
};

class GuessEnvironments : public EnvironmentFactory {
 public:
  explicit GuessEnvironments(std::int64_t max) : max_(max) {}

  Result<std::unique_ptr<Environment>> Make(const EpisodeTask& task,
                                            std::uint64_t seed) const override {
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json row, RowOf(task));
    BUTTRESS_ASSIGN_OR_RETURN(ordered_json opening, OpeningOf(row));
    RandomStream random({.seed = seed, .stream = HashText("guess")});
    std::int64_t number = 1 + static_cast<std::int64_t>(random.Below(Bound()));
    if (const auto field = row.find("number"); field != row.end()) {
      number = field->is_number_integer() ? field->get<std::int64_t>() : 0;
      if (number < 1 || number > max_)
        return InvalidArgument(fmt::format(
            "prompt {}: \"number\" is {}; expected a whole number from 1 to run.env.guess_max = {}",
            task.prompt_id, field->dump(), max_));
    }
    return std::unique_ptr<Environment>(
        std::make_unique<GuessEnvironment>(std::move(opening), number));
  }

 private:
  std::uint64_t Bound() const { return static_cast<std::uint64_t>(max_); }

  const std::int64_t max_;
};

}  // namespace

Result<std::unique_ptr<EnvironmentFactory>> MakeGuessEnvironments(const RunSettings& run) {
  return std::unique_ptr<EnvironmentFactory>(
      std::make_unique<GuessEnvironments>(run.env.guess_max));
}

}  // namespace buttress
