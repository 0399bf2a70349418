#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/reference/advantages.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/text/json_fault.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kFields = {"id",       "rewards",    "lengths",
                                                     "outcomes", "components", "history"};
constexpr std::size_t kMaxErrors = 100;
constexpr std::size_t kMostCompletions = std::numeric_limits<std::int32_t>::max();

std::string Shortened(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 40) + "..." : text;
}

std::optional<Outcome> ParseOutcome(const json& value) {
  for (const Outcome outcome : {Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable}) {
    if (value.is_string() && value.get_ref<const std::string&>() == OutcomeName(outcome))
      return outcome;
  }
  return std::nullopt;
}

// Appends groups to a batch and collects the errors in them.
class GroupReader {
 public:
  explicit GroupReader(std::string name) : name_(std::move(name)) {}

  void Read(std::string_view line, std::int64_t number) {
    line_ = number;
    if (NestedDeeper(line)) return Error(fmt::format("nested deeper than {}", kMaxJsonDepth));
    const json group = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!group.is_object()) return Error(WhyNoJsonObject(line) + "; expected one group a line");
    Read(group, number);
  }

  void Read(const json& group, std::int64_t number) {
    line_ = number;
    if (!group.is_object()) return Error("not a JSON object");
    NoteUnread(group);
    const std::size_t size = ReadRewards(group);
    if (size == 0) return;
    ReadOutcomes(group, size);
    ReadLengths(group, size);
    ReadComponents(group, size);
    ReadHistory(group);
    ReadId(group);
    batch_.group_offsets.push_back(static_cast<std::int32_t>(batch_.rewards.size()));
    if (batch_.rewards.size() > kMostCompletions)
      Error("more than 2147483647 completions in all; split the file");
  }

  Result<GroupBatch> Finish() && {
    batch_.classes = ClassifyGroups(batch_.rewards, batch_.outcomes, batch_.group_offsets);
    if (errors_ == 0) return std::move(batch_);
    if (name_.empty()) return InvalidArgument(text_);
    if (errors_ > kMaxErrors) text_ += fmt::format("\n... and {} more", errors_ - kMaxErrors);
    return InvalidArgument(
        fmt::format("{} {}:\n{}", errors_, errors_ == 1 ? "error" : "errors", text_));
  }

 private:
  void Error(const std::string& what) {
    if (++errors_ > kMaxErrors) return;
    const std::string at = name_.empty() ? "" : fmt::format("{}:{}: ", name_, line_);
    text_ += (text_.empty() ? "" : "\n") + at + what;
  }

  void Expected(const std::string& field, const json& value, const std::string& expected) {
    Error(fmt::format("{} = {}; expected {}", field, Shortened(value), expected));
  }

  void NoteUnread(const json& group) {
    for (const auto& [field, value] : group.items()) {
      if (std::ranges::find(kFields, field) != kFields.end() ||
          std::ranges::find(batch_.unread, field) != batch_.unread.end())
        continue;
      batch_.unread.push_back(field);
    }
  }

  // The list of `field` with one element per completion; nullptr if there is none, or, with an
  // error, if it is something else.
  const json* List(const json& group, const char* field, std::size_t size) {
    const auto found = group.find(field);
    if (found == group.end()) return nullptr;
    if (found->is_array() && found->size() == size) return &*found;
    Expected(field, *found, fmt::format("a list of {}, one per completion", size));
    return nullptr;
  }

  std::size_t ReadRewards(const json& group) {
    const auto found = group.find("rewards");
    if (found == group.end() || !found->is_array() || found->empty()) {
      Error("expected a list 'rewards' with a number for each completion");
      return 0;
    }
    for (std::size_t i = 0; i < found->size(); ++i) {
      const json& reward = (*found)[i];
      const double value =
          reward.is_number() ? reward.get<double>() : std::numeric_limits<double>::quiet_NaN();
      if (!reward.is_null() && !IsReward(value))
        Expected(fmt::format("rewards[{}]", i), reward,
                 fmt::format("null or a number from {:g} to {:g}", -kMaxReward, kMaxReward));
      batch_.rewards.push_back(value);
    }
    return found->size();
  }

  void ReadOutcomes(const json& group, std::size_t size) {
    const bool present = group.contains("outcomes");
    if (batch_.ids.empty()) has_outcomes_ = present;
    if (present != has_outcomes_) {
      return Error(
          fmt::format("{}, unlike the groups before; give outcomes to all groups or to none",
                      present ? "outcomes" : "no outcomes"));
    }
    const json* list = List(group, "outcomes", size);
    for (std::size_t i = 0; list != nullptr && i < size; ++i) {
      const json& value = (*list)[i];
      const auto outcome = ParseOutcome(value);
      const double reward = batch_.rewards[batch_.rewards.size() - size + i];
      const std::string field = fmt::format("outcomes[{}]", i);
      if (!outcome) Expected(field, value, "\"correct\", \"wrong\" or \"unscorable\"");
      if (outcome && *outcome != Outcome::kUnscorable && std::isnan(reward))
        Expected(field, value, "\"unscorable\", as its reward is null");
      batch_.outcomes.push_back(outcome.value_or(Outcome::kUnscorable));
    }
  }

  void ReadLengths(const json& group, std::size_t size) {
    const json* list = List(group, "lengths", size);
    batch_.has_lengths = batch_.has_lengths && list != nullptr;
    for (std::size_t i = 0; i < size; ++i) {
      std::int64_t length = 1;
      if (list != nullptr) {
        const json& value = (*list)[i];
        length = value.is_number_integer() ? value.get<std::int64_t>() : -1;
        if (length < 0 || length > std::numeric_limits<std::int32_t>::max()) {
          Expected(fmt::format("lengths[{}]", i), value, "a number of tokens, 0 to 2147483647");
          length = 0;
        }
      }
      batch_.lengths.push_back(static_cast<std::int32_t>(length));
    }
  }

  void ReadComponents(const json& group, std::size_t size) {
    const json* list = List(group, "components", size);
    const std::size_t parts = list != nullptr && (*list)[0].is_array() ? (*list)[0].size() : 0;
    if (batch_.ids.empty()) parts_ = parts;
    if (parts != parts_) {
      return Error(
          fmt::format("{} components, {} in the groups before; give all groups the same number",
                      parts, parts_));
    }
    for (std::size_t i = 0; list != nullptr && i < size; ++i) {
      const json& row = (*list)[i];
      const bool good =
          row.is_array() && row.size() == parts_ && std::ranges::all_of(row, [](const json& part) {
            return part.is_number() && std::isfinite(part.get<double>());
          });
      if (!good)
        Expected(fmt::format("components[{}]", i), row,
                 fmt::format("a list of {} numbers", parts_));
      for (std::size_t c = 0; c < parts_; ++c)
        batch_.components.push_back(good ? row[c].get<double>() : 0.0);
    }
  }

  void ReadHistory(const json& group) {
    PromptHistory history;
    if (const auto found = group.find("history"); found != group.end()) {
      const auto count = [&](const char* field) {
        const bool good =
            found->is_object() && found->contains(field) && (*found)[field].is_number_integer();
        return good ? (*found)[field].get<std::int64_t>() : -1;
      };
      history = {count("correct"), count("scored")};
      if (history.correct < 0 || history.correct > history.scored) {
        Expected("history", *found, "{\"correct\": c, \"scored\": n} with 0 <= c <= n");
        history = {};
      }
    }
    batch_.history.push_back(history);
  }

  void ReadId(const json& group) {
    const json id = group.contains("id") ? group["id"] : json(line_);
    if (!id.is_string() && !id.is_number()) Expected("id", id, "text or a number");
    batch_.ids.push_back(id);
  }

  const std::string name_;
  std::int64_t line_ = 0;
  GroupBatch batch_;
  bool has_outcomes_ = false;
  std::size_t parts_ = 0;
  std::string text_;
  std::size_t errors_ = 0;
};

}  // namespace

AdvantageInput GroupBatch::Input() const {
  AdvantageInput input;
  input.rewards = rewards;
  input.raw_rewards = rewards;
  input.outcomes = outcomes;
  input.components = components;
  input.lengths = lengths;
  input.group_offsets = group_offsets;
  input.classes = classes;
  input.history = history;
  input.collapse = MakeCollapseSnapshot(rewards, outcomes, group_offsets, history);
  return input;
}

Result<GroupBatch> ParseGroups(std::string_view text, const std::string& name) {
  GroupReader reader(name);
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) reader.Read(line, number);
  }
  return std::move(reader).Finish();
}

Result<GroupBatch> ParseGroup(const json& group) {
  GroupReader reader("");
  reader.Read(group, 1);
  return std::move(reader).Finish();
}

}  // namespace buttress
