#include "lib/rl/collapse/source_measurements.h"

#include <algorithm>
#include <functional>
#include <map>

namespace buttress {

double SourceMeasurements::acr() const {
  return collapse.constant() + collapse.mixed > 0 ? collapse.acr()
                                                  : std::numeric_limits<double>::quiet_NaN();
}

void SourceMeasurements::Add(const SourceMeasurements& other) {
  collapse.Add(other.collapse);
  scorable += other.scorable;
  raw_reward += other.raw_reward;
  correct += other.correct;
  judged += other.judged;
  virtual_groups += other.virtual_groups;
}

std::vector<SourceMeasurements> ReportedSources(const std::vector<SourceMeasurements>& sources,
                                                SourceNames& names) {
  std::vector<const SourceMeasurements*> ordered;
  for (const SourceMeasurements& source : sources) ordered.push_back(&source);
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const auto* source) { return source->collapse.groups; });
  std::map<std::string, SourceMeasurements> by_name;
  for (const SourceMeasurements* source : ordered) {
    const std::string name = names.Of(source->source);
    if (name == source->source && !by_name.contains(name)) {
      by_name[name] = *source;
    } else {
      by_name[name].source = name;
      by_name[name].Add(*source);
    }
  }
  std::vector<SourceMeasurements> reported;
  for (auto& [name, source] : by_name) reported.push_back(std::move(source));
  return reported;
}

}  // namespace buttress
