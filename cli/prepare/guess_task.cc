// `buttress task guess`: rows for the guessing game of run.env, and games of a policy that guesses
// at random.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/prepare/task.h"
#include "lib/base/os/file.h"
#include "lib/chat/guess.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

ordered_json GameMessage(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

ordered_json RandomGame(const GuessTaskOptions& options, RandomStream& random) {
  const auto draw = [&] {
    return 1 + static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(options.max)));
  };
  const std::int64_t number = draw();
  ordered_json messages =
      ordered_json::array({GameMessage("user", fmt::format("1-{}", options.max))});
  for (std::int64_t turn = 1;; ++turn) {
    const std::int64_t guess = draw();
    messages.push_back(GameMessage("assistant", std::to_string(guess)));
    if (guess == number || turn == options.turns) return {{"messages", std::move(messages)}};
    messages.push_back(GameMessage("user", GuessHint(guess, number)));
  }
}

}  // namespace

Status WriteGuessTask(const GuessTaskOptions& options, const std::string& folder) {
  std::string train;
  for (std::int64_t number = 1; number <= options.max; ++number) {
    const ordered_json prompt =
        ordered_json::array({GameMessage("user", fmt::format("1-{}", options.max))});
    train += ordered_json{{"id", fmt::format("guess-{}", number)},
                          {"prompt", prompt},
                          {"answer", std::to_string(number)},
                          {"number", number},
                          {"source", "guess"}}
                 .dump() +
             "\n";
  }
  RandomStream random({.seed = options.seed, .stream = HashText("guess")});
  std::string games;
  for (std::int64_t i = 0; i < options.sft; ++i) games += RandomGame(options, random).dump() + "\n";
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, "train.jsonl"), train));
  return WriteFileAtomic(JoinPath(folder, "sft.jsonl"), games);
}

}  // namespace buttress
