#include "lib/measure/eval_results.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSettings = "evaluation";  // the name of the first line's only member

Json ToJson(const EvalPrompt& prompt, double seconds) {
  Json completions = Json::array();
  for (const EvalCompletion& one : prompt.completions) {
    completions.push_back({{"outcome", OutcomeName(one.outcome)},
                           {"answer", one.answer},
                           {"reward", one.reward},
                           {"tokens", one.tokens},
                           {"truncated", one.truncated}});
    if (!one.episode) continue;
    completions.back()["episode"] = {{"end", one.episode->end},
                                     {"turns", one.episode->turns},
                                     {"tool_calls", one.episode->tool_calls},
                                     {"failed_tool_calls", one.episode->failed_tool_calls}};
  }
  return {{"row", prompt.row}, {"seconds", seconds}, {"completions", std::move(completions)}};
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Outcome> OutcomeOf(const Json& name) {
  for (const Outcome outcome : {Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable}) {
    if (name == std::string(OutcomeName(outcome))) return outcome;
  }
  return std::nullopt;
}

std::optional<EvalEpisode> ParseEpisode(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const Json end = json.value("end", Json()), turns = json.value("turns", Json()),
             calls = json.value("tool_calls", Json()),
             failed = json.value("failed_tool_calls", Json());
  if (!end.is_string() || !turns.is_number_integer() || !calls.is_number_integer() ||
      !failed.is_number_integer())
    return std::nullopt;
  return EvalEpisode{end.get<std::string>(), turns.get<std::int64_t>(), calls.get<std::int64_t>(),
                     failed.get<std::int64_t>()};
}

std::optional<EvalCompletion> ParseCompletion(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const Json answer = json.value("answer", Json()), reward = json.value("reward", Json()),
             tokens = json.value("tokens", Json()), truncated = json.value("truncated", Json());
  const auto outcome = OutcomeOf(json.value("outcome", Json()));
  if (!outcome || !answer.is_string() || !reward.is_number() || !tokens.is_number_integer() ||
      !truncated.is_boolean())
    return std::nullopt;
  EvalCompletion completion{*outcome, answer.get<std::string>(), reward.get<double>(),
                            tokens.get<std::int64_t>(), truncated.get<bool>()};
  if (!json.contains("episode")) return completion;
  completion.episode = ParseEpisode(json["episode"]);
  return completion.episode ? std::optional(std::move(completion)) : std::nullopt;
}

// Adds the prompt of a line. Returns false if it is not one, or of a row that is there already.
bool AddLine(std::string_view line, std::set<std::int64_t>& rows, EvalRecord& record) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const Json row = json.value("row", Json()), seconds = json.value("seconds", Json()),
             completions = json.value("completions", Json());
  if (!row.is_number_unsigned() || !seconds.is_number() || !completions.is_array()) return false;
  EvalPrompt& prompt = record.prompts.emplace_back();
  prompt.row = row.get<std::int64_t>();
  record.seconds = seconds.get<double>();
  for (const Json& one : completions) {
    const auto completion = ParseCompletion(one);
    if (!completion) return false;
    prompt.completions.push_back(*completion);
  }
  return rows.insert(prompt.row).second;
}

// Reads the whole lines of a file of results; `bytes` gets their length. A file without a line has
// no settings.
Result<EvalRecord> Parse(std::string_view text, const std::string& path, std::size_t& bytes) {
  EvalRecord record;
  std::set<std::int64_t> rows;
  bytes = 0;
  std::size_t number = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', bytes)) {
    const std::string_view line = text.substr(bytes, end - bytes);
    if (++number == 1) {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || !json.contains(kSettings) || !json[kSettings].is_object())
        return InvalidArgument(path + " has no results of `buttress eval`; name another file");
      record.settings = json[kSettings];
    } else if (!AddLine(line, rows, record)) {
      return DataLoss(fmt::format(
          "{}:{}: expected the results of a prompt; delete the line to evaluate its prompt again",
          path, number));
    }
    bytes = end + 1;
  }
  return record;
}

std::string Differences(const Json& file, const Json& now) {
  std::string text;
  const auto add = [&](const std::string& name) {
    const Json was = file.value(name, Json()), is = now.value(name, Json());
    if (was != is)
      text += fmt::format("{}{} is {} there and {} here", text.empty() ? "" : ", ", name, Text(was),
                          Text(is));
  };
  for (const auto& [name, value] : now.items()) add(name);
  for (const auto& [name, value] : file.items()) {
    if (!now.contains(name)) add(name);
  }
  return text;
}

}  // namespace

void EvalScores::Add(std::int64_t row, const EvalCompletion& completion) {
  PromptScores& prompt = prompts_[row];
  const bool correct = completion.outcome == Outcome::kCorrect;
  if (!correct && completion.outcome != Outcome::kWrong) return;
  ++prompt.successes.scored;
  prompt.successes.correct += correct ? 1 : 0;
  if (completion.answer.empty()) {
    ++prompt.blank;
    return;
  }
  Answer& answer = prompt.answers[completion.answer];
  (correct ? answer.correct : answer.wrong) += 1;
}

template <class Value>
std::vector<double> EvalScores::Rows(std::int64_t scored, const Value& value) const {
  if (prompts_.empty()) return {};
  std::vector<double> rows(static_cast<std::size_t>(prompts_.rbegin()->first) + 1,
                           std::numeric_limits<double>::quiet_NaN());
  for (const auto& [row, prompt] : prompts_) {
    if (prompt.successes.scored >= scored) rows[static_cast<std::size_t>(row)] = value(prompt);
  }
  return rows;
}

std::vector<double> EvalScores::PassByRow(std::int64_t k) const {
  return Rows(k, [k](const PromptScores& prompt) { return PassAtK(prompt.successes, k); });
}

std::vector<double> EvalScores::MajByRow(std::int64_t k) const {
  return Rows(k, [k](const PromptScores& prompt) {
    std::vector<AnswerVotes> votes;
    for (const auto& [text, answer] : prompt.answers)
      votes.push_back({answer.correct + answer.wrong, answer.correct > answer.wrong});
    return MajAtK(votes, prompt.blank, k);
  });
}

std::vector<double> EvalScores::ByRow() const {
  return Rows(1, [](const PromptScores& prompt) {
    return static_cast<double>(prompt.successes.correct) /
           static_cast<double>(prompt.successes.scored);
  });
}

Estimate MeanOfRows(std::span<const double> rows) {
  std::vector<double> finite;
  std::ranges::copy_if(rows, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  return MeanOver(finite);
}

std::vector<std::int64_t> PowersUpTo(std::int64_t n) {
  std::vector<std::int64_t> ks;
  for (std::int64_t k = 1; k < n; k *= 2) ks.push_back(k);
  ks.push_back(n);
  return ks;
}

std::string PercentText(const Estimate& estimate) {
  return fmt::format("{:5.1f} % [{:5.1f}, {:5.1f}]", 100 * estimate.mean, 100 * estimate.low,
                     100 * estimate.high);
}

void EpisodeTotals::Add(const EvalEpisode& episode) {
  ++episodes;
  turns += episode.turns;
  tool_calls += episode.tool_calls;
  failed_tool_calls += episode.failed_tool_calls;
  ++ends[episode.end];
}

std::int64_t EpisodeTotals::at_limit() const {
  std::int64_t count = 0;
  for (const char* limit : {"turns", "tokens", "tools"}) {
    const auto found = ends.find(limit);
    if (found != ends.end()) count += found->second;
  }
  return count;
}

void EvalResult::Add(const EvalPrompt& prompt) {
  ++prompts;
  for (const EvalCompletion& one : prompt.completions) {
    ++completions;
    scores.Add(prompt.row, one);
    correct += one.outcome == Outcome::kCorrect ? 1 : 0;
    wrong += one.outcome == Outcome::kWrong ? 1 : 0;
    unscorable += one.outcome == Outcome::kUnscorable ? 1 : 0;
    truncated += one.truncated ? 1 : 0;
    tokens += one.tokens;
    raw_reward += one.reward;
    if (one.episode) episodes.Add(*one.episode);
  }
}

EvalResult EvalRecord::Totals() const {
  EvalResult result;
  for (const EvalPrompt& prompt : prompts) result.Add(prompt);
  result.seconds = seconds;
  return result;
}

Result<EvalRecord> ReadEvalRecord(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::size_t bytes = 0;
  BUTTRESS_ASSIGN_OR_RETURN(EvalRecord record, Parse(text, path, bytes));
  if (bytes > 0) return record;
  return InvalidArgument(path + " has no results of `buttress eval`; name another file");
}

Result<std::unique_ptr<EvalFile>> EvalFile::Open(const std::string& path, const Json& settings) {
  OwnedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (fd.get() < 0)
    return InvalidArgument(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return FailedPrecondition("another evaluation writes to " + path + "; name another file");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::size_t bytes = 0;
  std::unique_ptr<EvalFile> file(new EvalFile(path, std::move(fd)));
  BUTTRESS_ASSIGN_OR_RETURN(file->found_, Parse(text, path, bytes));
  // A first line without its end may be of any file.
  if (bytes == 0 && !text.empty() && !text.starts_with(fmt::format("{{\"{}\"", kSettings)))
    return InvalidArgument(path + " has no results of `buttress eval`; name another file");
  if (bytes < text.size() && ::ftruncate(file->lock_.get(), static_cast<off_t>(bytes)) != 0)
    return Unavailable(fmt::format("cannot shorten {}: {}", path, std::strerror(errno)));
  if (bytes == 0) {
    file->found_.settings = settings;
    Json line;
    line[kSettings] = settings;
    BUTTRESS_RETURN_IF_ERROR(file->Write(line));
  }
  const std::string differences = Differences(file->found_.settings, settings);
  if (differences.empty()) return file;
  return InvalidArgument(
      fmt::format("{} has results of other settings: {}; name another file to evaluate with these",
                  path, differences));
}

Status EvalFile::Append(const EvalPrompt& prompt, double seconds) {
  return Write(ToJson(prompt, seconds));
}

Status EvalFile::Write(const Json& json) {
  return AppendToFile(path_, Text(json) + "\n")
      .Annotate("the same command continues once this is fixed");
}

}  // namespace buttress
