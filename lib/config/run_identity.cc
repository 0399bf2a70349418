#include "lib/config/run_identity.h"

#include <algorithm>

#include "lib/config/bind.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

// Empties the settings that may change.
struct Resetter {
  template <class T>
  void operator()(const char*, T& value, const char*, const Limits& limits = {}) {
    if constexpr (Section<T>) {
      value.Visit(*this);
    } else if (limits.may_change) {
      value = {};
    }
  }
};

// The settings of `run` that are set or have a default.
std::vector<Setting> PresentSettings(RunConfig config) {
  if (config.run.epochs > 0) config.run.steps = 0;  // as it is printed
  std::vector<Setting> settings = ListSettings(config);
  std::erase_if(settings, [](const Setting& setting) {
    return setting.absent || setting.meaning.empty() || !setting.key.starts_with("run.");
  });
  return settings;
}

}  // namespace

std::vector<std::string> ChangeableKeys() {
  std::vector<std::string> keys;
  for (const Setting& setting : PresentSettings({}))
    if (setting.may_change) keys.push_back(setting.key);
  return keys;
}

std::string RunIdentityHash(const RunConfig& config) {
  RunConfig fixed = config;
  Resetter resetter;
  fixed.run.Visit(resetter);
  return RunConfigHash(fixed);
}

std::vector<SettingChange> ChangesOf(const RunConfig& was, const RunConfig& is) {
  const auto before = PresentSettings(was), after = PresentSettings(is);
  const auto ValueOf = [](const std::vector<Setting>& settings, const std::string& key) {
    const auto found = std::ranges::find(settings, key, &Setting::key);
    return found == settings.end() ? "" : found->value;
  };
  const auto names_before = PresentSettings(WithFileNames(was)),
             names_after = PresentSettings(WithFileNames(is));
  std::vector<SettingChange> changes;
  const auto add = [&](const Setting& setting, const std::string& old, const std::string& now) {
    if (old == now) return;
    const bool moved = ValueOf(names_before, setting.key) == ValueOf(names_after, setting.key);
    changes.push_back({setting.key, old, now, moved || setting.may_change});
  };
  // Both have the same keys in the same order, but for those of sources and of absent settings.
  auto next = after.begin();
  for (const Setting& setting : before) {
    const auto same = std::ranges::find(next, after.end(), setting.key, &Setting::key);
    if (same == after.end()) {
      add(setting, setting.value, "");
      continue;
    }
    for (; next != same; ++next) add(*next, "", next->value);
    add(setting, setting.value, (next++)->value);
  }
  for (; next != after.end(); ++next) add(*next, "", next->value);
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
