#include "lib/page/page_data.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/unicode.h"
#include "lib/config/run_folder.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/learned.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kPointsAtOnce = 1000;
constexpr double kRefreshSeconds = 3;
constexpr std::size_t kGroups = 8, kUnsolvedPrompts = 6, kCompletions = 8;
constexpr std::int64_t kRecentGroups = 4096;
constexpr std::size_t kTextBytes = 1500;                          // of a text
constexpr std::uint64_t kMostStepBytes = std::uint64_t{4} << 20;  // of steps.jsonl, in one answer
constexpr int kMostWorkers = 1024;
constexpr std::size_t kWarnings = 12;
constexpr std::size_t kLogs = 64;
constexpr std::uintmax_t kTailBytes = 32 << 10;  // of each log
constexpr std::size_t kLineBytes = 400;

// The first kTextBytes of a text, up to the end of a character.
std::string Cut(const std::string& text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t next = end + CodePointAt(text, end).length;
    if (next > kTextBytes) return text.substr(0, end) + " \u2026";
    end = next;
  }
  return text;
}

// The answer of GetRunStatus in the JSON of Protocol Buffers, with the names of coordinator.proto.
ordered_json StatusJson(v1::GetRunStatusResponse run) {
  const int workers = run.workers_size();
  if (workers > kMostWorkers)
    run.mutable_workers()->DeleteSubrange(kMostWorkers, workers - kMostWorkers);
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(run, &text, options);
  ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  json["state"] = RunStateText(run);
  json["workers_total"] = workers;
  return json;
}

void CutMessages(ordered_json& messages) {
  for (ordered_json& message : messages)
    message["content"] = Cut(message["content"].get<std::string>());
}

ordered_json SampleJson(const SampledGroup& group, std::size_t i) {
  const Sample& sample = group.samples[i];
  ordered_json json = {{"outcome", OutcomeName(OutcomeOf(*group.head, i))},
                       {"raw_reward", RewardsOf(*group.head)[i]},
                       {"components", ComponentsJson(*group.head, i)},
                       {"tokens", group.head->lengths(static_cast<int>(i))},
                       {"truncated", IsTruncated(*group.head, i)},
                       {"text", nullptr}};
  if (sample.text) json["text"] = Cut(*sample.text);
  AddEpisodeJson(group, i, json);
  if (json.contains("parts")) {
    for (ordered_json& part : json["parts"]) {
      part.erase("text");  // the page shows the messages
      CutMessages(part["messages"]);
    }
  }
  if (!sample.unscorable.empty()) json["unscorable"] = Cut(sample.unscorable);
  return json;
}

ordered_json GroupJson(const SampledGroup& group) {
  ordered_json json = {{"group", group.group.group_id},
                       {"step", group.group.step},
                       {"prompt", group.group.prompt.prompt_id},
                       {"source", group.group.prompt.source},
                       {"class", CollapseClassName(ClassOf(*group.head))},
                       {"why_no_texts", group.why_no_texts},
                       {"text", nullptr},
                       {"completions_total", group.samples.size()},
                       {"completions", ordered_json::array()}};
  if (group.prompt) json["text"] = Cut(*group.prompt);
  json["messages"] = MessagesJson(group.prompt_messages);
  CutMessages(json["messages"]);
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    if (json["completions"].size() == kCompletions) break;
    json["completions"].push_back(SampleJson(group, i));
  }
  return json;
}

std::string TailOf(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return "";
  file.seekg(static_cast<std::streamoff>(size - std::min(size, kTailBytes)));
  std::string text(kTailBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Whether `line` is a warning or an error of lib/base/report/log.h: "2026-01-01T00:00:00.000Z W
// who ...".
bool IsWarning(std::string_view line) {
  return line.size() > 27 && line[4] == '-' && line[10] == 'T' && line[23] == 'Z' &&
         line[24] == ' ' && (line[25] == 'W' || line[25] == 'E') && line[26] == ' ' &&
         line.find(" alarm alarm=") == std::string_view::npos;
}

ordered_json Known(double value) { return std::isfinite(value) ? ordered_json(value) : nullptr; }

}  // namespace

ordered_json NewestWarnings(const std::string& folder, std::size_t most) {
  std::vector<std::string> lines;
  std::error_code error;
  std::size_t logs = 0;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".log" || ++logs > kLogs) continue;
    const std::string text = TailOf(entry.path());
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (IsWarning(line)) lines.emplace_back(line.substr(0, kLineBytes));
    }
  }
  std::ranges::sort(lines, std::greater<>());  // they begin with the time
  lines.resize(std::min(lines.size(), most));
  ordered_json json = ordered_json::array();
  for (const std::string& line : lines) {
    const std::size_t end = std::min(line.find(' ', 27), line.size());
    json.push_back({{"time", line.substr(0, 24)},
                    {"level", line[25] == 'E' ? "error" : "warning"},
                    {"who", line.substr(27, end - 27)},
                    {"text", line.substr(std::min(end + 1, line.size()))}});
  }
  return json;
}

Status RunPoints::Update(std::uint64_t most_bytes) {
  StepsTail& tail = std::filesystem::exists(steps_path_) ? tail_ : received_tail_;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps, tail.Next(most_bytes));
  for (const StepMeasurements& step : steps) Add(step);
  return OkStatus();
}

void RunPoints::Add(const StepMeasurements& step) {
  if (!newest_.empty() && step.step <= newest_.back().step) GoBackBefore(step.step);
  monitor_->Observe(step);
  for (const Alarm alarm : step.alarms) begins_[static_cast<std::size_t>(alarm)] = step.step;
  newest_.push_back(step);
  if (newest_.size() > kPaceSteps) newest_.erase(newest_.begin());
  if (std::isfinite(step.eval_step)) evals_.push_back(step);
  if (evals_.size() > kMostPoints) evals_.erase(evals_.begin());
  if (static_cast<std::int64_t>(step.step) % stride_ != 0) return;
  points_.push_back(step);
  if (points_.size() == kMostPoints) DropEverySecond();
}

void RunPoints::GoBackBefore(double step) {
  ++generation_;
  const auto late = [step](const auto& other) { return other.step >= step; };
  std::erase_if(points_, late);
  std::erase_if(evals_, late);
  std::erase_if(newest_, late);
  for (auto& begin : begins_) {
    if (begin && *begin >= step) begin.reset();
  }
  if (newest_.empty()) monitor_.emplace(alarm_config_);
}

void RunPoints::DropEverySecond() {
  ++generation_;
  stride_ *= 2;
  std::erase_if(points_, [this](const StepMeasurements& point) {
    return static_cast<std::int64_t>(point.step) % stride_ != 0;
  });
}

ordered_json RunPoints::After(double after, std::size_t limit) const {
  ordered_json json = ordered_json::array();
  auto next = std::ranges::upper_bound(points_, after, {}, &StepMeasurements::step);
  for (; next != points_.end() && json.size() < limit; ++next) {
    ordered_json point = {{"values", ordered_json::array()},
                          {"sources", ordered_json::object()},
                          {"components", ordered_json::object()},
                          {"alarms", ordered_json::array()}};
    for (const Measurement& row : MeasurementTable())
      point["values"].push_back(Known((*next).*row.value));
    for (const SourceMeasurements& source : next->sources)
      point["sources"][source.source] = Known(source.acr());
    for (const ComponentMeasurements& component : next->components)
      point["components"][component.name] = Known(component.reward_mean());
    for (const Alarm alarm : next->alarms) point["alarms"].push_back(AlarmName(alarm));
    json.push_back(std::move(point));
  }
  return json;
}

ordered_json RunPoints::Evals() const {
  ordered_json json = ordered_json::array();
  for (const StepMeasurements& step : evals_) {
    json.push_back({{"step", step.eval_step},
                    {"accuracy", Known(step.eval_accuracy)},
                    {"raw_reward_mean", Known(step.eval_raw_reward_mean)},
                    {"truncated_share", Known(step.eval_truncated_share)}});
  }
  return json;
}

PageData::PageData(const RunConfig& config, const Tokenizer* tokenizer,
                   std::function<Result<v1::GetRunStatusResponse>()> ask)
    : config_(config),
      tokenizer_(tokenizer),
      ask_(std::move(ask)),
      points_(JoinPath(config.local.out, "steps.jsonl"), ReceivedStepsPath(config.local.out),
              config.local.learner.alarms) {}

std::string PageData::Get(double after, std::int64_t generation) {
  ordered_json json = Look(kMostStepBytes);
  json["points"] = points_.After(generation == points_.generation() ? after : -1, kPointsAtOnce);
  json["more"] = json["points"].size() == kPointsAtOnce;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json PageData::Whole() {
  ordered_json json = Look(std::numeric_limits<std::uint64_t>::max());
  json["points"] = points_.After(-1, RunPoints::kMostPoints);
  json["more"] = false;
  return json;
}

// All of the object but its points.
ordered_json PageData::Look(std::uint64_t most_step_bytes) {
  std::vector<std::string> problems;
  const auto note = [&problems](const Status& status) {
    if (!status.ok()) problems.push_back(status.message());
  };
  note(points_.Update(most_step_bytes));
  ordered_json json = {{"run", config_.run.name},
                       {"steps", config_.run.steps},
                       {"max_tokens", config_.run.sampling.max_tokens},
                       {"now_unix", static_cast<double>(RealClock().UnixMs()) / 1000},
                       {"generation", points_.generation()},
                       {"names", ordered_json::array()},
                       {"help", ordered_json::array()},
                       {"latest", nullptr},
                       {"status", nullptr}};
  for (const Measurement& row : MeasurementTable()) {
    json["names"].push_back(row.name);
    json["help"].push_back(row.help);
  }
  if (!points_.newest().empty())
    json["latest"] = ordered_json::parse(StepToJson(points_.newest().back()));
  const auto status = ask_();
  note(status.status());
  if (status.ok()) json["status"] = StatusJson(*status);
  json["alarms"] = AlarmsJson();
  RefreshSlowly(problems);
  json.update(slow_);
  json["evals"] = points_.Evals();
  json["problems"] = problems;
  return json;
}

ordered_json PageData::AlarmsJson() const {
  ordered_json json = ordered_json::array();
  for (std::size_t i = 0; i < kAlarms; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    const std::optional<double> begin = points_.LastBegin(alarm);
    if (!begin && !points_.alarms().active(alarm)) continue;
    const AlarmWords words = WordsOf(alarm);
    json.push_back({{"name", AlarmName(alarm)},
                    {"active", points_.alarms().active(alarm)},
                    {"step", begin ? ordered_json(*begin) : nullptr},
                    {"meaning", words.meaning},
                    {"advice", words.advice}});
  }
  return json;
}

void PageData::RefreshSlowly(std::vector<std::string>& problems) {
  const double now = MonotonicSeconds();
  if (now < refreshed_ + kRefreshSeconds) return;
  refreshed_ = now;
  slow_ = {{"samples", nullptr}, {"unsolved", nullptr}};
  slow_["log"] = NewestWarnings(JoinPath(config_.local.out, "logs"), kWarnings);
  slow_["learned"] = LearnedJson(LearnedOf(points_.points(), HeldOut("eval_before.json"),
                                           HeldOut("eval_after.json"), config_.local.out));
  if (samples_ == nullptr) {
    auto opened = SampleReader::Open(config_.local.out, tokenizer_);
    if (!opened.ok()) return problems.push_back(opened.status().message());
    samples_ = *std::move(opened);
  }
  for (const auto& [name, read] : {std::pair{"samples", &PageData::NewestSamples},
                                   std::pair{"unsolved", &PageData::Unsolved}}) {
    const auto rows = (this->*read)();
    if (rows.ok()) slow_[name] = *rows;
    if (!rows.ok()) problems.push_back(rows.status().message());
  }
}

// Empty before `launch` has measured it.
std::vector<double> PageData::HeldOut(const std::string& file) const {
  auto accuracy = ReadAccuracy(JoinPath(config_.local.out, file));
  return accuracy.ok() ? std::move(accuracy->by_row) : std::vector<double>();
}

Result<ordered_json> PageData::NewestSamples() {
  ordered_json json = ordered_json::array();
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, samples_->ledger().Run());
  if (!run || run->planned_step == 0) return json;
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<std::uint64_t> ids,
                            samples_->ledger().DrawnFor(run->planned_step));
  ids.resize(std::min(ids.size(), kGroups));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SampledGroup> groups, samples_->Groups(ids));
  for (const SampledGroup& group : groups) json.push_back(GroupJson(group));
  return json;
}

Result<ordered_json> PageData::Unsolved() {
  ordered_json json = ordered_json::array();
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<UnsolvedPrompt> prompts,
                            samples_->ledger().Unsolved(kRecentGroups, kUnsolvedPrompts));
  for (const UnsolvedPrompt& prompt : prompts) {
    const std::uint64_t ids[] = {prompt.last_group};
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SampledGroup> groups, samples_->Groups(ids));
    if (groups.empty()) continue;
    ordered_json& row = json.emplace_back(GroupJson(groups.front()));
    row["tried"] = prompt.completions;
  }
  return json;
}

}  // namespace buttress
