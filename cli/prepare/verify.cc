// `buttress verify FILE`: scores rows of responses or groups with the workers' own code and reports
// the share of groups that give no gradient.
#include "cli/prepare/verify.h"

#include <absl/strings/str_replace.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "lib/base/report/status.h"
#include "lib/config/load.h"
#include "lib/config/run_config.h"
#include "lib/data/field_path.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

std::string Text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool IsMessages(const ordered_json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const ordered_json& message) {
           return message.is_object() && message.contains("content");
         });
}

// A text, the contents of chat messages, or any other value as JSON.
std::string ResponseText(const ordered_json& value) {
  if (!IsMessages(value)) return Text(value);
  std::string text;
  for (const ordered_json& message : value)
    text += (text.empty() ? "" : "\n") + Text(message["content"]);
  return text;
}

std::optional<bool> Label(const ordered_json& value) {
  static const ordered_json kYes = {"correct", "true", "True", "1", true, 1};
  static const ordered_json kNo = {"wrong", "false", "False", "0", false, 0};
  if (std::ranges::find(kYes, value) != kYes.end()) return true;
  return std::ranges::find(kNo, value) != kNo.end() ? std::optional(false) : std::nullopt;
}

// Finds a field, or that of its plural.
FoundField FindOneOrMany(ordered_json& row, const std::string& path) {
  const FoundField one = FindField(row, path);
  return one ? one : FindField(row, path + "s");
}

Status ReadLabels(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  const FoundField found = FindOneOrMany(row, fields.label);
  if (!found || found.value().is_null()) return OkStatus();
  const bool list = found.value().is_array();
  const ordered_json labels = list ? found.value() : ordered_json::array({found.value()});
  if (list != read.is_group || labels.size() != read.responses.size()) {
    return InvalidArgument(fmt::format("'{}' has {} labels for {} responses; expected one each",
                                       found.name, labels.size(), read.responses.size()));
  }
  for (const ordered_json& value : labels) {
    const std::optional<bool> label = Label(value);
    if (!label) {
      return InvalidArgument(
          fmt::format("'{}' has the label {}; expected true, false, 1, 0, \"correct\" or \"wrong\"",
                      found.name, value.dump()));
    }
    read.labels.push_back(*label);
  }
  return OkStatus();
}

Status ReadResponses(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  const FoundField found = FindOneOrMany(row, fields.response);
  if (!found && !fields.response_needed) return OkStatus();
  if (!found) {
    return InvalidArgument(DescribeMissing(row, fields.response) +
                           "; --response-field names the field of the response");
  }
  const ordered_json& value = found.value();
  const auto is_null = [](const ordered_json& response) { return response.is_null(); };
  if (is_null(value) || (value.is_array() && std::ranges::any_of(value, is_null)))
    return InvalidArgument("'" + found.name + "' has null; expected the text of the response");
  read.is_group = value.is_array() && !IsMessages(value);
  if (value.is_array() && value.empty())
    return InvalidArgument("'" + found.name + "' is empty; expected one response or more");
  if (!read.is_group && found.name.ends_with('s') && !fields.response.ends_with('s'))
    return InvalidArgument("'" + found.name + "' is not a list; expected the responses of a group");
  if (!read.is_group) {
    read.responses.push_back(ResponseText(value));
  } else {
    for (const ordered_json& response : value) read.responses.push_back(ResponseText(response));
  }
  return OkStatus();
}

Status ReadAnswer(ordered_json& row, const VerifyFields& fields, VerifyRow& read) {
  if (fields.answer.empty()) return OkStatus();
  const FoundField found = FindField(row, fields.answer);
  if (!found) {
    return InvalidArgument(DescribeMissing(row, fields.answer) +
                           "; --answer-field names the field of the answer");
  }
  if (found.value().is_null())
    return InvalidArgument("'" + found.name + "' is null; expected the reference answer");
  read.answer = Text(found.value());
  return OkStatus();
}

constexpr std::int64_t kRowsBetweenProgress = 10000;

struct VerifyFlags {
  VerifierFlags verifier;
  bool json = false;
  bool list = false;
  bool explain = false;
};

struct Counts {
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;
  std::int64_t labelled = 0;
  std::int64_t agreeing = 0;
  std::string first_reason;  // of a response that could not be scored
  CollapseCounts groups;     // over the rows with several responses

  std::int64_t responses() const { return correct + wrong + unscorable; }

  double unscorable_share() const {
    return responses() == 0 ? 0
                            : static_cast<double>(unscorable) / static_cast<double>(responses());
  }
};

void PrintTable() {
  for (const VerifierEntry& entry : VerifierTable()) {
    std::string line(entry.meaning);
    if (!entry.settings.empty()) line.append("; settings: ").append(entry.settings);
    if (!entry.source.empty()) line.append("; source: ").append(entry.source);
    fmt::print("{:<12} {}\n", entry.name, line);
  }
}

// Prints what was read as it is written, where and as which value, and why it was judged so. Other
// verifiers than math, number and choice say it in the verdict.
void PrintExplanation(const Verdict& verdict) {
  const Explanation& read = verdict.explanation;
  if (read.why.empty()) return;
  const auto print = [](const char* name, const std::string& text, const std::string& anchor,
                        const std::string& value) {
    if (anchor.empty()) return;
    const std::string_view colon = anchor.ends_with(':') ? "" : ":";
    const std::string read_as = text.empty() ? "nothing" : text + " read as " + value;
    fmt::print("  {:<10} {}{} {}\n", name, anchor, colon, read_as);
  };
  print("reference", read.gold_text, read.gold_anchor, verdict.gold);
  print("response", read.given_text, verdict.anchor, verdict.given);
  fmt::print("  {:<10} {}\n", "why", read.why);
}

// A text as part of a line.
std::string OneLine(std::string_view text) {
  return absl::StrReplaceAll(std::string(text), {{"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}});
}

void PrintVerdict(const VerifyRow& row, std::size_t index, const Verdict& verdict, bool as_json) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (as_json) {
    ordered_json line{{"id", row.json_id},        {"index", index},
                      {"outcome", outcome},       {"reason", verdict.unscorable_reason},
                      {"anchor", verdict.anchor}, {"gold", verdict.gold},
                      {"given", verdict.given}};
    if (const Explanation& read = verdict.explanation; !read.why.empty())
      line.update({{"gold_anchor", read.gold_anchor},
                   {"gold_text", read.gold_text},
                   {"given_text", read.given_text},
                   {"why", read.why}});
    PrintJson(line);
  } else if (verdict.outcome == Outcome::kUnscorable) {
    fmt::print("{}\t{}\t{}\t{}\n", OneLine(row.id), index, outcome,
               OneLine(verdict.unscorable_reason));
  } else {
    fmt::print("{}\t{}\t{}\tgiven {}\tgold {}\n", OneLine(row.id), index, outcome,
               OneLine(verdict.given), OneLine(verdict.gold));
  }
}

// Prints to stderr, so that stdout holds one object per line.
void PrintDisagreement(const VerifyRow& row, std::size_t index, const Verdict& verdict) {
  fmt::print(stderr,
             "label disagrees: {} response {} is {}, labelled {}: given '{}', gold '{}'\n{}\n",
             row.id, index, OutcomeName(verdict.outcome), row.labels[index] ? "correct" : "wrong",
             verdict.given, verdict.gold, row.responses[index]);
}

void PrintSummary(const Counts& counts, bool as_json) {
  ordered_json summary{{"responses", counts.responses()},
                       {"correct", counts.correct},
                       {"wrong", counts.wrong},
                       {"unscorable", counts.unscorable},
                       {"unscorable_share", counts.unscorable_share()},
                       {"groups", counts.groups.groups},
                       {"collapsed", counts.groups.constant()},
                       {"all_correct", counts.groups.all_correct},
                       {"all_wrong", counts.groups.all_wrong},
                       {"acr", nullptr},
                       {"labelled", counts.labelled},
                       {"label_agreement", nullptr}};
  if (counts.groups.constant() + counts.groups.mixed > 0) summary["acr"] = counts.groups.acr();
  if (counts.labelled > 0) {
    summary["label_agreement"] =
        static_cast<double>(counts.agreeing) / static_cast<double>(counts.labelled);
  }
  if (as_json) return PrintJson({{"summary", summary}});
  for (const auto& [name, value] : summary.items()) {
    fmt::print("{:<16} {}\n", name, value.is_null() ? "-" : value.dump());
  }
}

void ScoreRow(const VerifyRow& row, const Verifier& verifier, const VerifyFlags& flags,
              Counts& counts) {
  std::vector<double> rewards;
  std::vector<Outcome> outcomes;
  std::vector<VerifyRequest> group;
  for (const std::string& response : row.responses)
    group.push_back({.prompt = row.prompt,
                     .response = response,
                     .answer = row.answer,
                     .extra_json = row.json,
                     .truncated = false,
                     .source = row.source,
                     .explain = flags.explain});
  const std::vector<Verdict> verdicts = verifier.VerifyGroup(group);
  for (std::size_t i = 0; i < row.responses.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    PrintVerdict(row, i, verdict, flags.json);
    if (!flags.json) PrintExplanation(verdict);
    rewards.push_back(verdict.raw_reward);
    outcomes.push_back(verdict.outcome);
    if (counts.unscorable == 0) counts.first_reason = verdict.unscorable_reason;
    ++(verdict.outcome == Outcome::kCorrect ? counts.correct
       : verdict.outcome == Outcome::kWrong ? counts.wrong
                                            : counts.unscorable);
    if (row.labels.empty()) continue;
    ++counts.labelled;
    const Outcome label = row.labels[i] ? Outcome::kCorrect : Outcome::kWrong;
    if (verdict.outcome == label) {
      ++counts.agreeing;
    } else {
      PrintDisagreement(row, i, verdict);
    }
  }
  if (row.is_group) counts.groups.Add(ClassifyGroup(rewards, outcomes));
}

Status ScoreFile(const VerifyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<VerifierSet> verifiers, flags.verifier.Make());
  Counts counts;
  BUTTRESS_RETURN_IF_ERROR(flags.verifier.ForEachRow(
      [&](const VerifyRow& row) { ScoreRow(row, verifiers->For(row.source), flags, counts); }));
  PrintSummary(counts, flags.json);
  if (counts.responses() == 0 || counts.unscorable < counts.responses()) return OkStatus();
  std::fflush(stdout);
  return NothingToLearn(fmt::format("none of {} responses could be scored; the first because: {}",
                                    counts.responses(), counts.first_reason));
}

}  // namespace

Result<VerifyRow> ReadVerifyRow(JsonRow row, const VerifyFields& fields) {
  ordered_json& object = row.fields;
  VerifyRow read;
  const FoundField id = FindField(object, fields.id);
  read.json_id = id ? id.value() : ordered_json(row.line);
  read.id = IdText(read.json_id);
  const FoundField source = FindField(object, fields.source);
  read.source = source && !source.value().is_null() ? Text(source.value()) : kDefaultSource;
  BUTTRESS_RETURN_IF_ERROR(ReadAnswer(object, fields, read));
  BUTTRESS_RETURN_IF_ERROR(ReadResponses(object, fields, read));
  BUTTRESS_RETURN_IF_ERROR(ReadLabels(object, fields, read));
  if (const FoundField prompt = FindField(object, fields.prompt)) {
    ordered_json value = std::move(prompt.value());
    read.prompt = Text(value);
    prompt.object->erase(prompt.name);
    object["prompt"] = std::move(value);
  }
  read.json = object.dump();
  return read;
}

void VerifierFlags::AddTo(CLI::App& app) {
  app.add_option("file", path,
                 "JSONL, JSON, CSV, Parquet or Arrow of {\"id\", \"answer\", \"response\", "
                 "\"label\"} or of groups: {\"id\", \"answer\", \"responses\": [...], \"labels\": "
                 "[...]}; labels are optional");
  const auto field = [&app](const char* name, std::string& value, const std::string& what) {
    app.add_option(name, value, "field of the " + what)->capture_default_str();
  };
  field("--prompt-field", fields.prompt,
        "prompt; a dotted path names a field inside another one, as in run.data.prompt_field");
  field("--response-field", fields.response, "response, or of a list of them");
  field("--answer-field", fields.answer, "reference answer; empty: the verifier needs none");
  field("--source-field", fields.source, "data source, which run.reward.by_source names");
  field("--id-field", fields.id, "id");
  field("--label-field", fields.label, "label, or of a list of them");
  app.add_option(
         "--verifier", verifier,
         "a verifier, or a weighted sum such as math + 0.2 * format; buttress verify --list "
         "names the verifiers")
      ->capture_default_str();
  app.add_option("--set", overrides,
                 "a setting of run.reward, for example run.reward.code.language=cpp; may be "
                 "repeated");
  app.add_flag("--use-all", use_all, "countdown: every number exactly once");
  app.add_option("--mode", mode, "math: lenient | strict");
  app.add_option("--anchors", anchors,
                 "math: the markers of an answer, in the order of search: boxed,####,answer:")
      ->delimiter(',');
}

Result<std::unique_ptr<VerifierSet>> VerifierFlags::Make() const {
  if (path.empty()) return InvalidArgument("name a file of responses; --help describes its rows");
  std::vector<std::string> all = overrides;
  if (!mode.empty()) all.push_back("run.reward.math.mode=" + mode);
  if (use_all) all.emplace_back("run.reward.use_all=true");
  BUTTRESS_ASSIGN_OR_RETURN(RewardConfig config, ParseReward(all));
  if (!anchors.empty()) config.math.anchors = anchors;
  config.verifier = verifier;
  BUTTRESS_RETURN_IF_ERROR(ValidateRewardConfig(config));
  return VerifierSet::Make(config);
}

Status VerifierFlags::ForEachRow(const std::function<void(const VerifyRow&)>& use) const {
  std::int64_t rows = 0, responses = 0;
  return ForEachJsonRow(path, [&](JsonRow json) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const VerifyRow row, ReadVerifyRow(std::move(json), fields));
    use(row);
    responses += static_cast<std::int64_t>(row.responses.size());
    if (++rows % kRowsBetweenProgress == 0)
      fmt::print(stderr, "{} rows, {} responses\n", rows, responses);
    return OkStatus();
  });
}

std::function<Status()> AddVerify(CLI::App& app) {
  const auto flags = std::make_shared<VerifyFlags>();
  flags->verifier.AddTo(app);
  app.add_flag("--json", flags->json, "print one JSON object per response, then a summary object");
  app.add_flag("--list", flags->list, "list the verifiers");
  app.add_flag("--explain", flags->explain,
               "math, number, choice: say what was read from the answer and the response, and why "
               "they agree or differ");
  return [flags]() -> Status {
    if (!flags->list) return ScoreFile(*flags);
    PrintTable();
    return OkStatus();
  };
}

}  // namespace buttress
