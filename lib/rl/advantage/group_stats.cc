#include "lib/rl/advantage/group_stats.h"

#include <string>

namespace buttress {

Result<StdKind> ParseStdKind(std::string_view name) {
  if (name == "sample") return StdKind::kSample;
  if (name == "population") return StdKind::kPopulation;
  if (name == "none") return StdKind::kNone;
  return InvalidArgument("algorithm.std = '" + std::string(name) +
                         "' is not known; choose one of: sample, population, none");
}

}  // namespace buttress
