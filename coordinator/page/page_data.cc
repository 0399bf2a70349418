#include "coordinator/page/page_data.h"

#include <algorithm>
#include <cmath>

#include "coordinator/page/alarm_advice.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/unicode.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kPointsAtOnce = 1000;
constexpr double kRefreshSeconds = 3;
constexpr std::size_t kGroups = 8, kUnsolvedPrompts = 6, kCompletions = 8;
constexpr std::int64_t kRecentGroups = 4096;
constexpr std::size_t kTextBytes = 1500;  // of a text
constexpr std::size_t kMostWorkers = 1024, kWarnings = 12;

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

ordered_json CountsJson(const v1::CollapseCounts& c) {
  const std::uint64_t constant = c.all_correct() + c.all_wrong() + c.other_constant();
  ordered_json json = {{"groups", c.groups()},
                       {"all_correct", c.all_correct()},
                       {"all_wrong", c.all_wrong()},
                       {"other_constant", c.other_constant()},
                       {"mixed", c.mixed()},
                       {"unscorable", c.unscorable()},
                       {"acr", nullptr}};
  if (constant + c.mixed() > 0)
    json["acr"] = static_cast<double>(constant) / static_cast<double>(constant + c.mixed());
  return json;
}

// The parts of a worker's time; null without a report.
ordered_json TimeJson(const v1::WorkerStatus& worker) {
  if (!worker.has_time()) return nullptr;
  const v1::WorkerTime& time = worker.time();
  return {{"up", time.up_seconds()},
          {"generating", time.generating_seconds()},
          {"scoring", time.scoring_seconds()},
          {"no_lease", time.no_lease_seconds()},
          {"wait_weights", time.wait_weights_seconds()},
          {"submitting", time.submitting_seconds()},
          {"loading_weights", time.loading_weights_seconds()}};
}

ordered_json WorkerJson(const v1::WorkerStatus& worker) {
  ordered_json json = {{"worker", worker.worker_id()},
                       {"registered", worker.registered()},
                       {"leases", worker.leases()},
                       {"version", worker.loaded_version().step()},
                       {"silent_seconds", static_cast<double>(worker.silent_ms()) / 1000},
                       {"order", nullptr},
                       {"reason", worker.order_reason()},
                       {"time", TimeJson(worker)}};
  if (worker.order() == v1::WORKER_ORDER_CORDON) json["order"] = "cordon";
  if (worker.order() == v1::WORKER_ORDER_DRAIN) json["order"] = "drain";
  return json;
}

ordered_json StatusJson(const v1::GetRunStatusResponse& run) {
  ordered_json json = {{"state", RunStateText(run)},
                       {"paused", run.paused()},
                       {"end_reason", run.end_reason()},
                       {"step", run.step()},
                       {"checkpoint_step", run.checkpoint_step()},
                       {"version", run.version().step()},
                       {"learner_starts", run.learner_epoch()},
                       {"coordinator_starts", run.coordinator_epoch()},
                       {"collapse", CountsJson(run.collapse())},
                       {"sources", ordered_json::object()},
                       {"time",
                        {{"up", run.coordinator_time().up_seconds()},
                         {"busy", run.coordinator_time().busy_seconds()},
                         {"ledger", run.coordinator_time().ledger_seconds()}}},
                       {"workers", ordered_json::array()},
                       {"workers_total", run.workers_size()}};
  const std::map<std::string, v1::CollapseCounts> sources(run.collapse_by_source().begin(),
                                                          run.collapse_by_source().end());
  for (const auto& [source, counts] : sources) json["sources"][source] = CountsJson(counts);
  std::map<std::string, std::map<std::string, std::uint64_t>> skipped;
  for (const auto& [source, counts] : run.skipped_by_source()) {
    for (const auto& [reason, prompts] : counts.reasons()) {
      if (prompts > 0) skipped[source][reason] = prompts;
    }
  }
  json["skipped"] = skipped;
  for (const v1::WorkerStatus& worker : run.workers()) {
    if (json["workers"].size() == kMostWorkers) break;
    json["workers"].push_back(WorkerJson(worker));
  }
  return json;
}

ordered_json SampleJson(const SampledGroup& group, std::size_t i) {
  const Sample& sample = group.samples[i];
  ordered_json json = {{"outcome", OutcomeName(OutcomeOf(*group.head, i))},
                       {"reward", RewardsOf(*group.head)[i]},
                       {"tokens", group.head->lengths(static_cast<int>(i))},
                       {"truncated", IsTruncated(*group.head, i)},
                       {"text", nullptr}};
  if (sample.text) json["text"] = Cut(*sample.text);
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
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    if (json["completions"].size() == kCompletions) break;
    json["completions"].push_back(SampleJson(group, i));
  }
  return json;
}

}  // namespace

PageData::PageData(const RunConfig& config, const Tokenizer& tokenizer,
                   std::function<Result<v1::GetRunStatusResponse>()> ask)
    : config_(config),
      tokenizer_(tokenizer),
      ask_(std::move(ask)),
      points_(JoinPath(config.local.out, "steps.jsonl"), ReceivedStepsPath(config.local.out),
              config.local.learner.alarms) {}

std::string PageData::Get(double after, std::int64_t generation) {
  std::vector<std::string> problems;
  const auto note = [&problems](const Status& status) {
    if (!status.ok()) problems.push_back(status.message());
  };
  note(points_.Update());
  ordered_json json = {{"run", config_.run.name},
                       {"steps", config_.run.steps},
                       {"max_tokens", config_.run.sampling.max_tokens},
                       {"now_unix", static_cast<double>(RealClock().UnixMs()) / 1000},
                       {"generation", points_.generation()},
                       {"names", PointNames()},
                       {"seconds_left", nullptr},
                       {"latest", nullptr},
                       {"status", nullptr}};
  if (const auto left = points_.SecondsLeft(config_.run.steps)) json["seconds_left"] = *left;
  if (!points_.newest().empty())
    json["latest"] = ordered_json::parse(StepToJson(points_.newest().back()));
  const auto status = ask_();
  note(status.status());
  if (status.ok()) json["status"] = StatusJson(*status);
  json["alarms"] = AlarmsJson();
  RefreshSlowly(problems);
  json.update(slow_);
  json["points"] = points_.After(generation == points_.generation() ? after : -1, kPointsAtOnce);
  json["evals"] = points_.Evals();
  json["more"] = json["points"].size() == kPointsAtOnce;
  json["problems"] = problems;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json PageData::AlarmsJson() const {
  ordered_json json = ordered_json::array();
  for (std::size_t i = 0; i < kAlarms; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    const std::optional<double> begin = points_.LastBegin(alarm);
    if (!begin && !points_.alarms().active(alarm)) continue;
    json.push_back({{"name", AlarmName(alarm)},
                    {"active", points_.alarms().active(alarm)},
                    {"step", begin ? ordered_json(*begin) : nullptr},
                    {"meaning", AdviceOn(alarm).meaning},
                    {"remedy", AdviceOn(alarm).remedy}});
  }
  return json;
}

void PageData::RefreshSlowly(std::vector<std::string>& problems) {
  const double now = MonotonicSeconds();
  if (now < refreshed_ + kRefreshSeconds) return;
  refreshed_ = now;
  slow_ = {{"samples", nullptr}, {"unsolved", nullptr}};
  slow_["log"] = NewestWarnings(JoinPath(config_.local.out, "logs"), kWarnings);
  if (samples_ == nullptr) {
    auto opened = SampleReader::Open(config_.local.out, &tokenizer_);
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
