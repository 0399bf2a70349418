#include "lib/config/describe.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <vector>

#include "lib/config/bind.h"
#include "lib/config/run_config.h"

namespace buttress {
namespace {

constexpr std::size_t kSuggestedMax = 3;

// "run.optim.lr  (1e-06)  peak learning rate"; empty for a section.
std::string LineOf(const Setting& setting) {
  if (setting.meaning.empty()) return "";
  return setting.key + "  (" + setting.shown + ")  " + setting.meaning + "\n";
}

bool HasAll(const std::string& line, const std::vector<std::string>& words) {
  const std::string lower = absl::AsciiStrToLower(line);
  return std::ranges::all_of(
      words, [&lower](const std::string& word) { return lower.find(word) != std::string::npos; });
}

// The sections around the settings, each once, with two more spaces for each level.
std::string YamlOf(const std::vector<Setting>& settings) {
  std::string text;
  std::vector<std::string> open;
  for (const Setting& setting : settings) {
    if (setting.yaml.empty()) continue;
    std::vector<std::string> sections = absl::StrSplit(setting.key, '.');
    sections.pop_back();
    const auto [old, now] = std::ranges::mismatch(open, sections);
    for (auto section = now; section != sections.end(); ++section) {
      text.append(2 * static_cast<std::size_t>(section - sections.begin()), ' ')
          .append(*section + ":\n");
    }
    text.append(2 * sections.size(), ' ').append(setting.yaml + "\n");
    open = std::move(sections);
  }
  return text;
}

// The part of `key` that has as many names as `other`.
std::string_view TailLike(std::string_view key, std::string_view other) {
  std::size_t dots = static_cast<std::size_t>(std::ranges::count(other, '.'));
  std::size_t at = key.size();
  while (at > 0 && (key[at - 1] != '.' || dots-- > 0)) --at;
  return key.substr(at);
}

// Short names are near to too many others.
std::size_t AllowedDistance(std::string_view key) {
  return key.size() <= 4 ? 0 : key.size() <= 8 ? 1 : 2;
}

}  // namespace

std::string DescribeRunConfig() {
  std::string text;
  for (const Setting& setting : ListSettings(RunConfig())) text += LineOf(setting);
  return text;
}

Result<std::string> DescribeSettings(std::string_view words) {
  const std::vector<std::string> all = absl::StrSplit(absl::AsciiStrToLower(std::string(words)),
                                                      absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  std::vector<Setting> found;
  std::string text;
  for (Setting& setting : ListSettings(RunConfig())) {
    const std::string line = LineOf(setting);
    if (line.empty() || !HasAll(line, all)) continue;
    text += line;
    found.push_back(std::move(setting));
  }
  if (found.empty()) {
    const std::string near = SuggestWholeKeys(words);
    return InvalidArgument("no setting has '" + std::string(words) + "' in its key or meaning" +
                           (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  return text + "\nas YAML, with the defaults:\n" + YamlOf(found);
}

std::string SuggestWholeKeys(std::string_view key) {
  // A file of unknown keys asks once for each of them.
  static const std::vector<Setting> settings = ListSettings(RunConfig());
  std::vector<std::string> nearest;
  std::size_t least = AllowedDistance(key);
  for (const Setting& setting : settings) {
    const std::size_t distance = EditDistance(TailLike(setting.key, key), key);
    if (distance > least) continue;
    if (distance < least) nearest.clear();
    least = distance;
    nearest.push_back(setting.key);
  }
  if (nearest.size() > kSuggestedMax) nearest.resize(kSuggestedMax);
  std::string text;
  for (const std::string& other : nearest) text += (text.empty() ? "'" : " or '") + other + "'";
  return text;
}

}  // namespace buttress
