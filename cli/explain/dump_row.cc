#include "cli/explain/dump_row.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "cli/explain/dump_fields.h"
#include "cli/explain/json_line.h"
#include "cli/reference/advantages.h"
#include "lib/base/text/random.h"
#include "lib/config/run_config.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kShownPrompt = 100;   // bytes
constexpr std::size_t kShownFields = 300;   // bytes
constexpr std::size_t kLongestTruth = 400;  // bytes; a longer text is not a final answer

constexpr const char* kRewardValue = "a number, true, false or null";
constexpr std::string_view kAdvantage = "advantage";  // of TRL

constexpr Dialect kVerl = {.name = "verl",
                           .prompt = "input",
                           .text = "output",
                           .reward = "score",
                           .outcome = "acc",
                           .truth = "gts",
                           .group = "uid",
                           .source = "data_source",
                           .tokens = "response_length",
                           .finish_reason = "finish_reason"};
constexpr Dialect kTrl = {
    .name = "trl", .prompt = "prompt", .text = "completion", .truth = "answer", .source = "source"};
constexpr Dialect kPlain = {.name = "plain",
                            .prompt = "prompt",
                            .text = "completion",
                            .reward = "reward",
                            .raw_reward = "raw_reward",
                            .outcome = "outcome",
                            .truth = "answer",
                            .group = "group",
                            .source = "source",
                            .tokens = "tokens",
                            .finish_reason = "finish_reason",
                            .logprob = "logprob",
                            .version = "version",
                            .sampler = "worker"};
constexpr Dialect kGroups = {.name = "groups",
                             .prompt = "id",
                             .reward = "rewards",
                             .outcome = "outcomes",
                             .source = "source",
                             .tokens = "lengths"};

// Returns a readable name of a prompt: a digest and the start of the user's message.
std::string PromptName(std::string_view prompt) {
  const std::uint64_t digest = HashText(prompt) >> 32;
  constexpr std::string_view kUser = "user\n";
  const std::size_t user = prompt.rfind(kUser);
  if (user != std::string_view::npos) prompt.remove_prefix(user + kUser.size());
  constexpr std::string_view kAssistant = "\nassistant\n";
  if (prompt.ends_with(kAssistant)) prompt.remove_suffix(kAssistant.size());
  std::string name = fmt::format("{:08x} {}", digest, FirstBytes(Trim(prompt), kShownPrompt));
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return name;
}

// Returns the sample part of verl's uid, <sample>_<rollout>_<output>. The numbers may be missing.
std::string_view SampleOf(std::string_view uid) {
  for (int part = 0; part < 2; ++part) {
    const std::size_t cut = uid.rfind('_');
    if (cut == std::string_view::npos ||
        uid.find_first_not_of("0123456789", cut + 1) != std::string_view::npos)
      return uid;
    uid = uid.substr(0, cut);
  }
  return uid;
}

// Recognises the dialect by the fields of a row. kInvalidArgument lists the known dialects.
Result<const Dialect*> FindDialect(const json& row) {
  const auto has = [&](std::initializer_list<const char*> fields) {
    return std::ranges::all_of(fields, [&](const char* field) { return row.contains(field); });
  };
  if (has({"rewards"})) return &kGroups;
  if (has({"input", "output", "score"})) return &kVerl;
  if (has({"prompt", "completion", "advantage"})) return &kTrl;
  if (has({"reward"}) && (has({"prompt"}) || has({"id"}) || has({"group"}))) return &kPlain;
  if (row.empty()) return InvalidArgument("its rows have no fields");
  std::string fields;
  for (const auto& [field, value] : row.items()) fields += (fields.empty() ? "" : ", ") + field;
  return InvalidArgument(fmt::format(
      "the fields {} belong to no known dump: verl (input, output, score), TRL (prompt, "
      "completion, advantage and reward columns), plain (prompt or id, reward; "
      "completion), groups (rewards)",
      FirstBytes(fields, kShownFields)));
}

}  // namespace

Result<const Dialect*> DialectOf(LineReader& file) {
  constexpr int kRows = 20;
  Status first;
  for (int rows = 0; rows < kRows;) {
    std::string_view line;
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, file.Next(line));
    if (!found) break;
    if (Trim(line).empty()) continue;
    ++rows;
    const json row = ParseLine(line);
    const auto dialect =
        row.is_object()
            ? FindDialect(row)
            : Result<const Dialect*>(InvalidArgument(
                  "its rows are no objects of JSON, the first: " + WhyNoObject(Trim(line))));
    if (dialect.ok()) {
      file.Rewind();
      return dialect;
    }
    if (first.ok()) first = dialect.status();
  }
  return first.ok() ? InvalidArgument("it has no rows") : first;
}

Result<RowReader> RowReader::Make(const Dialect& dialect, const StepSourceOptions& options,
                                  RewardRule rule) {
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Verifier> second, MakeVerifier("math", RewardConfig{}));
  return RowReader(dialect, options, std::move(rule), std::move(second));
}

RowReader::RowReader(const Dialect& dialect, const StepSourceOptions& options, RewardRule rule,
                     std::unique_ptr<Verifier> second)
    : dialect_(&dialect), options_(options), rule_(std::move(rule)), second_(std::move(second)) {}

// Sums the columns of the reward functions. A function that did not apply has null; a completion to
// which no function applied has no verdict.
Status RowReader::ReadColumns(const json& row, CompletionFacts& completion) const {
  if (!row.contains(kAdvantage))
    return InvalidArgument("no field 'advantage', which every row of TRL has");
  const json* advantage = FindField(row, kAdvantage);
  if (advantage != nullptr && !advantage->is_number())
    return Unexpected(kAdvantage, *advantage, "a number");
  std::optional<double> sum;
  for (std::size_t i = 0; i < rule_.fields.size(); ++i) {
    const json* value = FindField(row, rule_.fields[i]);
    if (value == nullptr) continue;
    if (!value->is_number() && !value->is_boolean())
      return Unexpected(rule_.fields[i], *value, kRewardValue);
    sum = sum.value_or(0) + rule_.weights[i] * NumberOf(*value);
  }
  completion.SetRewards(sum.value_or(kNone));
  return OkStatus();
}

Status RowReader::ReadReward(const json& row, CompletionFacts& completion) const {
  for (const std::string& field : options_.rewards) {
    const json* value = FindField(row, field);
    if (value != nullptr && !value->is_number() && !value->is_boolean())
      return Unexpected(field, *value, kRewardValue);
  }
  if (dialect_ == &kTrl) return ReadColumns(row, completion);
  if (!row.contains(dialect_->reward))
    return InvalidArgument("no field '" + std::string(dialect_->reward) + "'");
  const json* reward = FindField(row, dialect_->reward);
  if (reward != nullptr && !reward->is_number() && !reward->is_boolean())
    return Unexpected(dialect_->reward, *reward, kRewardValue);
  const json* raw = FindField(row, dialect_->raw_reward);
  if (raw != nullptr && !raw->is_number())
    return Unexpected(dialect_->raw_reward, *raw, "a number");
  completion.SetRewards(reward == nullptr ? kNone : NumberOf(*reward));
  if (raw != nullptr && reward != nullptr)
    completion.deciding_reward = completion.raw_reward = raw->get<double>();
  return OkStatus();
}

// Lets the first deciding field that the row has say what is right.
Status RowReader::Decide(const json& row, CompletionFacts& completion) const {
  const bool scored = std::isfinite(completion.shaped_reward);
  // What has no verdict leaves the verdict of its group to the others.
  if (!scored) completion.outcome = Outcome::kUnscorable;
  completion.judged = rule_.judged && (rule_.deciding.empty() || !scored);
  for (const std::string& field : rule_.deciding) {
    const json* value = FindField(row, field);
    if (value == nullptr || !scored) continue;
    const FieldValues& values = rule_.values.at(field);
    completion.judged = true;
    completion.deciding_reward = NumberOf(*value);
    if (values.is_outcome()) {
      completion.outcome =
          completion.deciding_reward > values.middle() ? Outcome::kCorrect : Outcome::kWrong;
    }
    return OkStatus();
  }
  // What the user named takes the place of the outcome of the row.
  return options_.rewards.empty() ? ReadOutcome(row, completion) : OkStatus();
}

Status RowReader::ReadOutcome(const json& row, CompletionFacts& completion) const {
  const json* outcome = FindField(row, dialect_->outcome);
  if (outcome == nullptr) return OkStatus();
  if (outcome->is_boolean() || outcome->is_number()) {
    const double value = NumberOf(*outcome);
    completion.outcome = value > 0.5 ? Outcome::kCorrect : Outcome::kWrong;
    // The accuracy decides collapse; the score may be shaped.
    if (std::isfinite(completion.shaped_reward)) completion.deciding_reward = value;
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadText(row, dialect_->outcome));
    const auto known = {Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable};
    const auto found =
        std::ranges::find_if(known, [&](Outcome o) { return OutcomeName(o) == text; });
    if (found == known.end())
      return Unexpected(dialect_->outcome, *outcome,
                        "\"correct\", \"wrong\", \"unscorable\", true, false or a number");
    completion.outcome = *found;
  }
  if (!std::isfinite(completion.shaped_reward)) completion.outcome = Outcome::kUnscorable;
  return OkStatus();
}

Status RowReader::ReadLengths(const json& row, CompletionFacts& completion) const {
  if (const json* tokens = FindField(row, dialect_->tokens)) {
    const std::int64_t value =
        tokens->is_number()
            ? static_cast<std::int64_t>(std::clamp(tokens->get<double>(), -1.0, 2e9))
            : -1;
    if (value < 0) return Unexpected(dialect_->tokens, *tokens, "a number of tokens");
    completion.tokens = static_cast<std::int32_t>(value);
    if (options_.max_tokens > 0) completion.truncated = value >= options_.max_tokens;
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string reason, ReadText(row, dialect_->finish_reason));
  if (!reason.empty()) completion.truncated = reason == "length";
  if (const json* logprob = FindField(row, dialect_->logprob)) {
    if (!logprob->is_number() || logprob->get<double>() > 1e-3)
      return Unexpected(dialect_->logprob, *logprob, "nats of the whole completion, <= 0");
    completion.logprob = logprob->get<double>();
  }
  return OkStatus();
}

void RowReader::ReadTruth(const std::string& text, const std::string& truth,
                          CompletionFacts& completion) const {
  if (text.empty() || truth.empty() || truth.size() > kLongestTruth) return;
  const Verdict verdict = second_->Verify(
      {.prompt = {}, .response = text, .answer = truth, .extra_json = {}, .truncated = false});
  if (verdict.outcome != Outcome::kUnscorable)
    completion.states_truth = verdict.outcome == Outcome::kCorrect;
}

Result<DumpRow> RowReader::ReadGroup(const json& row) const {
  BUTTRESS_ASSIGN_OR_RETURN(const GroupBatch batch, ParseGroup(row));
  DumpRow read;
  read.whole_group = true;
  for (std::size_t i = 0; i < batch.rewards.size(); ++i) {
    CompletionFacts& completion = read.facts.completions.emplace_back();
    completion.SetRewards(batch.rewards[i]);
    if (!batch.outcomes.empty()) completion.outcome = batch.outcomes[i];
    if (batch.has_lengths) completion.tokens = batch.lengths[i];
    if (completion.tokens && options_.max_tokens > 0)
      completion.truncated = *completion.tokens >= options_.max_tokens;
  }
  if (batch.history[0].scored > 0) read.facts.history = batch.history[0];
  BUTTRESS_ASSIGN_OR_RETURN(read.facts.prompt_id, ReadText(row, "id"));
  return read;
}

// Sets the names of the prompt and of its group.
Status RowReader::ReadPrompt(const json& row, DumpRow& read) const {
  const json* id = dialect_ == &kPlain ? FindField(row, "id") : nullptr;
  const json* group = FindField(row, dialect_->group);
  if (FindField(row, dialect_->prompt) == nullptr && id == nullptr && group == nullptr) {
    return InvalidArgument("no field '" + std::string(dialect_->prompt) +
                           "', which names the prompt of the completion");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string prompt, ReadText(row, dialect_->prompt));
  read.facts.prompt_id = PromptName(prompt);
  if (id != nullptr) {
    BUTTRESS_ASSIGN_OR_RETURN(read.facts.prompt_id, ReadText(row, "id"));
  }
  // Equal questions with different answers are different prompts.
  const json* truth = FindField(row, dialect_->truth);
  read.group = MixSeed(HashText(id != nullptr ? read.facts.prompt_id : prompt),
                       HashText(truth != nullptr ? truth->dump() : ""));
  if (group == nullptr) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string name, ReadText(row, dialect_->group));
  read.group = HashText(dialect_ == &kVerl ? SampleOf(name) : std::string_view(name));
  if (FindField(row, dialect_->prompt) == nullptr && id == nullptr) read.facts.prompt_id = name;
  return OkStatus();
}

Status RowReader::ReadCompletion(const json& row, CompletionFacts& completion) const {
  BUTTRESS_RETURN_IF_ERROR(ReadReward(row, completion));
  BUTTRESS_RETURN_IF_ERROR(Decide(row, completion));
  BUTTRESS_RETURN_IF_ERROR(ReadLengths(row, completion));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadText(row, dialect_->text));
  if (FindField(row, dialect_->text) != nullptr) completion.text = FactsOfText(text);
  const json* truth = FindField(row, dialect_->truth);
  if (truth == nullptr || !truth->is_primitive()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string answer, ReadText(row, dialect_->truth));
  ReadTruth(text, answer, completion);
  return OkStatus();
}

// The fields of the row without a value that others of the dump have, or that is null.
std::vector<Gap> RowReader::GapsOf(const json& row) const {
  constexpr std::string_view kNoVerdict = "such a completion has no verdict";
  std::vector<Gap> gaps;
  const auto look = [&](std::string_view field, bool expected, std::string_view meaning) {
    const auto found = row.find(field);
    if (!field.empty() && (found == row.end() ? expected : found->is_null()))
      gaps.push_back({std::string(field), meaning});
  };
  if (dialect_ == &kGroups) {
    const bool any = std::ranges::any_of(row["rewards"], [](const json& r) { return r.is_null(); });
    if (any) gaps.push_back({"rewards", kNoVerdict});
    return gaps;
  }
  if (const json* prompt = FindField(row, dialect_->prompt); prompt != nullptr && *prompt == "")
    gaps.push_back({std::string(dialect_->prompt), "such rows have one prompt"});
  look(dialect_->group, false, "the prompt names the group there");
  const bool several = rule_.fields.size() > 1;
  for (const std::string& field : rule_.fields)
    look(field, true, several ? "the reward is the sum of the other columns" : kNoVerdict);
  if (dialect_ == &kTrl) look(kAdvantage, true, "the trainer had no number there either");
  if (dialect_ != &kTrl) look(dialect_->reward, true, kNoVerdict);
  for (const std::string& field : options_.rewards)
    if (dialect_ != &kTrl) look(field, true, "the next --reward decides there, or nothing");
  look(dialect_->outcome, rule_.outcomes, "the reward decides there what is right");
  for (const std::string_view field :
       {dialect_->raw_reward, dialect_->text, dialect_->tokens, dialect_->logprob,
        dialect_->version, dialect_->finish_reason})
    look(field, false, "it counts as not known there");
  return gaps;
}

Result<DumpRow> RowReader::Read(const json& row) {
  if (!row.is_object()) return InvalidArgument("not a JSON object");
  DumpRow read;
  if (dialect_ == &kGroups) {
    BUTTRESS_ASSIGN_OR_RETURN(read, ReadGroup(row));
  } else {
    BUTTRESS_RETURN_IF_ERROR(ReadCompletion(row, read.facts.completions.emplace_back()));
    BUTTRESS_RETURN_IF_ERROR(ReadPrompt(row, read));
  }
  BUTTRESS_ASSIGN_OR_RETURN(read.facts.source, ReadText(row, dialect_->source));
  BUTTRESS_ASSIGN_OR_RETURN(read.facts.sampler, ReadText(row, dialect_->sampler));
  BUTTRESS_RETURN_IF_ERROR(ReadStep(row, "step", "a whole number, not negative", read.step));
  BUTTRESS_RETURN_IF_ERROR(
      ReadStep(row, dialect_->version, "the step of the weights", read.facts.version_step));
  read.gaps = GapsOf(row);
  return read;
}

bool HasTextsOfNumbers(const Dialect& dialect, std::string_view path) {
  return &dialect == &kVerl || path.ends_with(".csv");
}

void ReadNumbers(const Dialect& dialect, json& row) {
  const std::string_view texts[] = {dialect.prompt, dialect.text,    dialect.truth, dialect.group,
                                    dialect.source, dialect.sampler, "id"};
  for (const auto& [field, value] : row.items()) {
    if (!value.is_string() || std::ranges::find(texts, field) != std::end(texts)) continue;
    const std::string text = value.get<std::string>();
    if (text.empty()) value = nullptr;
    if (text == "True" || text == "False") value = text == "True";
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) continue;
    value = std::isfinite(number) ? json(number) : json();
  }
}

}  // namespace buttress
