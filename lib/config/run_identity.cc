#include "lib/config/run_identity.h"

#include <algorithm>
#include <utility>

#include "lib/config/bind.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

// Calls f(key, field) for each setting that may change when a run is resumed.
template <class F>
void ForEachChangeable(RunSettings& run, F f) {
  f("run.steps", run.steps);
  f("run.epochs", run.epochs);
  f("run.checkpoint_interval", run.checkpoint_interval);
  f("run.checkpoints.keep_last", run.checkpoints.keep_last);
  f("run.checkpoints.keep_best", run.checkpoints.keep_best);
  f("run.eval.every", run.eval.every);
  f("run.eval.prompts", run.eval.prompts);
  f("run.eval.samples", run.eval.samples);
  f("run.eval.temperature", run.eval.temperature);
  f("run.lease_ms", run.lease_ms);
  f("run.lease_limit_ms", run.lease_limit_ms);
  f("run.max_attempts", run.max_attempts);
  f("run.reward.threads", run.reward.threads);
  f("run.reward.timeout_ms", run.reward.timeout_ms);
  f("run.algorithm.clip_low", run.algorithm.clip_low);
  f("run.algorithm.clip_high", run.algorithm.clip_high);
  f("run.algorithm.dual_clip", run.algorithm.dual_clip);
  f("run.algorithm.entropy_coef", run.algorithm.entropy_coef);
  f("run.optim.lr", run.optim.lr);
  f("run.optim.weight_decay", run.optim.weight_decay);
  f("run.optim.warmup_steps", run.optim.warmup_steps);
  f("run.optim.schedule", run.optim.schedule);
  f("run.optim.min_lr_ratio", run.optim.min_lr_ratio);
  f("run.optim.clip_grad", run.optim.clip_grad);
}

using FlatSetting = std::pair<std::string, std::string>;

// Collects every setting as a pair of key and text.
class Flattener {
 public:
  Flattener(std::string path, std::vector<FlatSetting>& out) : path_(std::move(path)), out_(out) {}

  template <class T>
  void operator()(const char* name, T& value, const char*) {
    const std::string path = path_ + "." + name;
    if constexpr (Section<T>) {
      Flattener nested(path, out_);
      value.Visit(nested);
    } else if constexpr (SectionMap<T>) {
      for (auto& [key, section] : value) {
        Flattener nested(path + "." + key, out_);
        section.Visit(nested);
      }
    } else if constexpr (OptionalSetting<T>) {
      if (value) (*this)(name, *value, "");
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      std::string text;
      for (const auto& [key, item] : value)
        text.append(text.empty() ? "" : ", ").append(key).append(": ").append(item);
      out_.emplace_back(path, "{" + text + "}");
    } else if constexpr (requires { value.begin(); } && !std::same_as<T, std::string>) {
      std::string text;
      for (const auto& item : value) text.append(text.empty() ? "" : ", ").append(ToText(item));
      out_.emplace_back(path, "[" + text + "]");
    } else {
      out_.emplace_back(path, ToText(value));
    }
  }

 private:
  std::string path_;
  std::vector<FlatSetting>& out_;
};

std::vector<FlatSetting> Flatten(RunConfig config) {
  if (config.run.epochs > 0) config.run.steps = 0;  // as it is printed
  std::vector<FlatSetting> settings;
  Flattener flattener("run", settings);
  config.run.Visit(flattener);
  return settings;
}

}  // namespace

std::vector<std::string> ChangeableKeys() {
  std::vector<std::string> keys;
  RunSettings run;
  ForEachChangeable(run, [&](const char* key, const auto&) { keys.emplace_back(key); });
  return keys;
}

std::string RunIdentityHash(const RunConfig& config) {
  RunConfig fixed = config;
  ForEachChangeable(fixed.run, [](const char*, auto& field) { field = {}; });
  return RunConfigHash(fixed);
}

std::vector<SettingChange> ChangesOf(const RunConfig& was, const RunConfig& is) {
  const std::vector<std::string> changeable = ChangeableKeys();
  const auto before = Flatten(was), after = Flatten(is);
  const auto ValueOf = [](const std::vector<FlatSetting>& settings, const std::string& key) {
    const auto found = std::ranges::find(settings, key, &FlatSetting::first);
    return found == settings.end() ? "" : found->second;
  };
  const auto names_before = Flatten(WithFileNames(was)), names_after = Flatten(WithFileNames(is));
  std::vector<SettingChange> changes;
  const auto add = [&](const std::string& key, const std::string& old, const std::string& now) {
    if (old == now) return;
    const bool moved = ValueOf(names_before, key) == ValueOf(names_after, key);
    changes.push_back(
        {key, old, now, moved || std::ranges::find(changeable, key) != changeable.end()});
  };
  // Both have the same keys in the same order, but for those of sources and of absent settings.
  auto next = after.begin();
  for (const auto& [key, value] : before) {
    const auto same = std::ranges::find(next, after.end(), key, &FlatSetting::first);
    if (same == after.end()) {
      add(key, value, "");
      continue;
    }
    for (; next != same; ++next) add(next->first, "", next->second);
    add(key, value, (next++)->second);
  }
  for (; next != after.end(); ++next) add(next->first, "", next->second);
  return changes;
}

std::string DescribeChanges(const std::vector<SettingChange>& changes) {
  std::string text;
  for (const auto& [key, was, is, allowed] : changes) {
    text += "\n  " + key + ": " + (was.empty() ? "(empty)" : was) + " -> " +
            (is.empty() ? "(empty)" : is) + (allowed ? " (may change)" : "");
  }
  return text;
}

}  // namespace buttress
