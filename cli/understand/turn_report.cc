#include "cli/understand/turn_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kShownDifferences = 5;

// The index of the first token that differs; nothing if all are equal.
std::optional<std::size_t> FirstDifference(const std::vector<std::int32_t>& recorded,
                                           const std::vector<std::int32_t>& sampled) {
  const auto at = std::ranges::mismatch(recorded, sampled);
  if (at.in1 == recorded.end() && at.in2 == sampled.end()) return std::nullopt;
  return static_cast<std::size_t>(at.in1 - recorded.begin());
}

// The text of the tokens, or they themselves.
ordered_json Shown(const std::vector<std::int32_t>& tokens, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return tokens;
  const Result<std::string> text = tokenizer->Decode(tokens, SpecialTokens::kKeep);
  return text.ok() ? ordered_json(*text) : ordered_json(tokens);
}

}  // namespace

void TurnReport::Add(const RecordedTurn& turn, const std::vector<std::int32_t>& sampled) {
  const auto difference = FirstDifference(turn.answer, sampled);
  Counts& counts = by_step_[turn.version.step];
  ++counts.turns;
  counts.equal += difference ? 0 : 1;
  bool& as_recorded = episodes_.try_emplace({turn.group_id, turn.episode}, true).first->second;
  const bool leaves = as_recorded && difference;
  if (difference) as_recorded = false;
  if (json_) PrintTurn(turn, sampled, difference);
  if (!leaves || left_.size() == kShownDifferences) return;
  left_.push_back(fmt::format("group {}, episode {} leaves at turn {}, token {}: {} was {}\n",
                              turn.group_id, turn.episode, turn.turn, *difference,
                              Shown(sampled, tokenizer_).dump(),
                              Shown(turn.answer, tokenizer_).dump()));
}

std::string TurnReport::Summary(const RecordedTurns& recorded, const std::string& model) const {
  return json_ ? SummaryJson(recorded, model) : SummaryText(recorded, model);
}

void TurnReport::PrintTurn(const RecordedTurn& turn, const std::vector<std::int32_t>& sampled,
                           const std::optional<std::size_t>& difference) const {
  ordered_json row = {{"group", turn.group_id},
                      {"episode", turn.episode},
                      {"turn", turn.turn},
                      {"sampled_by", turn.version.step},
                      {"tools", turn.tools},
                      {"context_tokens", turn.context.size()},
                      {"tokens", turn.answer.size()},
                      {"equal", !difference},
                      {"recorded", Shown(turn.answer, tokenizer_)}};
  if (difference) {
    row["first_difference"] = *difference;
    row["replayed"] = Shown(sampled, tokenizer_);
  }
  std::fputs(JsonLine(row).c_str(), stdout);
}

std::int64_t TurnReport::EqualEpisodes() const {
  return std::ranges::count_if(episodes_, [](const auto& episode) { return episode.second; });
}

std::string TurnReport::SummaryJson(const RecordedTurns& recorded, const std::string& model) const {
  Counts all;
  ordered_json steps = ordered_json::object();
  for (const auto& [step, counts] : by_step_) {
    all.turns += counts.turns;
    all.equal += counts.equal;
    steps[std::to_string(step)] = {{"turns", counts.turns}, {"equal", counts.equal}};
  }
  return JsonLine({{"summary",
                    {{"model", model},
                     {"episodes", episodes_.size()},
                     {"equal_episodes", EqualEpisodes()},
                     {"turns", all.turns},
                     {"equal", all.equal},
                     {"by_step", steps},
                     {"turns_in_branches", recorded.in_branches},
                     {"turns_of_several_versions", recorded.of_several},
                     {"groups_without_tokens", recorded.deleted_groups}}}});
}

std::string TurnReport::SummaryText(const RecordedTurns& recorded, const std::string& model) const {
  std::string text = fmt::format(
      "{} of {} episodes are as they were recorded, answered by {}; tools and users say what they "
      "said then\n",
      EqualEpisodes(), episodes_.size(), model);
  for (const auto& [step, counts] : by_step_)
    text +=
        fmt::format("{} of {} answers that weights of step {} sampled are equal, token by token\n",
                    counts.equal, counts.turns, step);
  for (const std::string& line : left_) text += line;
  if (recorded.in_branches > 0)
    text += fmt::format(
        "{} answers of episodes with branches are left out: the order of their calls is not "
        "recorded\n",
        recorded.in_branches);
  if (recorded.of_several > 0)
    text +=
        fmt::format("{} answers are left out that several versions sampled\n", recorded.of_several);
  if (recorded.deleted_groups > 0)
    text += fmt::format(
        "{} groups are left out, whose tokens are deleted; local.coordinator.keep_payloads: true "
        "keeps them\n",
        recorded.deleted_groups);
  return text;
}

}  // namespace buttress
