#include "learner/step_log.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/file.h"

namespace buttress {
namespace {

void AddCollapse(const CollapseCounts& counts, nlohmann::ordered_json& json) {
  const auto comparable = static_cast<double>(counts.constant() + counts.mixed);
  const auto rate = [&](std::int64_t groups) {
    return comparable > 0 ? static_cast<double>(groups) / comparable : 0.0;
  };
  json["acr"] = counts.acr();
  json["acr_all_correct"] = rate(counts.all_correct);
  json["acr_all_wrong"] = rate(counts.all_wrong);
  json["acr_other"] = rate(counts.other_constant);
  json["groups"] = counts.groups;
  json["unscorable_groups"] = counts.unscorable;
}

// Share of the gradient that comes from collapsed groups, in all and by source.
void AddCollapsedGradient(const GradientMass& mass, nlohmann::ordered_json& json) {
  json["collapsed_gradient"] = {{"share", mass.share(mass.collapsed())},
                                {"virtual", mass.share(mass.virtual_samples)},
                                {"shaping", mass.share(mass.shaping)},
                                {"estimator", mass.share(mass.estimator)},
                                {"kl", mass.share(mass.kl)}};
}

}  // namespace

StepReading ReadingOf(const StepReport& report) {
  return {.entropy = report.entropy,
          .sampler_kl = report.loss.kl_k3,
          .reference_kl = report.loss.ref_kl,
          .distinct_share = report.responses.distinct_share()};
}

std::string StepToJson(const StepReport& report, const StepTimes& times,
                       std::span<const Alarm> begun) {
  const BatchSummary& batch = report.batch;
  const LossReport& loss = report.loss;
  const auto per_second = [&](std::int64_t tokens) {
    return times.step_seconds > 0 ? static_cast<double>(tokens) / times.step_seconds : 0.0;
  };
  nlohmann::ordered_json json;
  json["step"] = report.step;
  json["time_unix"] = times.time_unix;
  json["reward_mean"] = batch.reward_mean;
  json["accuracy"] = batch.accuracy;
  AddCollapse(batch.collapse, json);
  json["groups_replaced"] = batch.groups_replaced;
  json["groups_masked"] = batch.groups_masked;
  json["unscorable"] = batch.unscorable;
  json["entropy"] = report.entropy;
  json["entropy_exact"] = loss.entropy;
  json["entropy_coef"] = report.entropy_coef;
  json["kl"] = loss.kl_k3;
  json["kl_k1"] = loss.kl_k1;
  json["ref_kl"] = loss.ref_kl;
  json["clip_low"] = loss.clip_low;
  json["clip_high"] = loss.clip_high;
  json["clip_dual"] = loss.clip_dual;
  json["marked"] = loss.marked;
  json["importance"] = {{"mean", loss.importance.mean},
                        {"ess", loss.importance.ess},
                        {"p01", loss.importance.p01},
                        {"p50", loss.importance.p50},
                        {"p99", loss.importance.p99}};
  json["correction"] = {{"mean", loss.correction.mean},
                        {"ess", loss.correction.ess},
                        {"truncated", loss.correction.truncated},
                        {"masked", loss.correction.masked}};
  json["distinct_share"] = report.responses.distinct_share();
  json["format_share"] = report.responses.format_share();
  json["alarms"] = nlohmann::json::array();
  for (const Alarm alarm : begun) json["alarms"].push_back(AlarmName(alarm));
  json["grad_norm"] = report.grad_norm;  // null if it is not finite
  json["lr"] = report.lr;
  json["loss"] = loss.loss();
  json["policy_loss"] = loss.policy_loss;
  json["kl_loss"] = loss.kl_loss;
  json["entropy_bonus"] = loss.entropy_bonus;
  json["skipped"] = report.skipped;
  json["tokens"] = batch.tokens;
  json["trained_tokens"] = loss.tokens;
  json["dropped_tokens"] = loss.dropped;
  json["overlong_filtered"] = batch.overlong_filtered;
  json["generated_tokens"] = batch.generated_tokens;
  json["tokens_per_second"] = per_second(batch.generated_tokens);
  json["groups_trained"] = batch.groups_trained;
  json["virtual_groups"] = batch.virtual_groups;
  json["virtual_weight"] = batch.virtual_weight;
  AddCollapsedGradient(batch.gradient, json);
  if (batch.gate) {
    json["gate"] = {{"rate", batch.gate->rate},
                    {"threshold", batch.gate->threshold},
                    {"open", batch.gate->open}};
  }
  json["age_mean"] = batch.age_mean;
  json["age_max"] = batch.age_max;
  const StepSeconds& s = report.seconds;
  json["seconds"] = {{"step", times.step_seconds}, {"wait", s.wait},
                     {"fetch", s.fetch},           {"forward", s.forward},
                     {"backward", s.backward},     {"reduce", s.reduce},
                     {"optimizer", s.optimizer},   {"commit", s.commit},
                     {"publish", times.publish},   {"checkpoint", times.checkpoint}};
  return json.dump();
}

Status StepLog::KeepUntil(std::int64_t last_step) const {
  const auto text = ReadFile(path_);
  if (text.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!text.ok()) return text.status();
  std::string kept;
  std::string_view rest = *text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool known =
        json.is_object() && json.contains("step") && json["step"].is_number_integer();
    if (!known)
      return DataLoss(path_ + ": a line is not a step's JSON object; move the file aside");
    if (json["step"].get<std::int64_t>() <= last_step) kept += line;
  }
  if (kept.size() == text->size()) return OkStatus();
  return WriteFileAtomic(path_, kept);
}

Result<std::vector<StepReading>> StepLog::Readings() const {
  std::vector<StepReading> readings;
  const auto text = ReadFile(path_);
  if (text.status().code() == StatusCode::kNotFound) return readings;
  if (!text.ok()) return text.status();
  std::string_view rest = *text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const auto json =
        nlohmann::json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false);
    rest.remove_prefix(end + 1);
    const auto number = [&json](const char* name) {
      const bool known = json.is_object() && json.contains(name) && json[name].is_number();
      return known ? json[name].get<double>() : std::numeric_limits<double>::quiet_NaN();
    };
    readings.push_back(
        {number("entropy"), number("kl"), number("ref_kl"), number("distinct_share")});
  }
  return readings;
}

Status StepLog::Append(const std::string& line) const { return AppendToFile(path_, line + "\n"); }

}  // namespace buttress
