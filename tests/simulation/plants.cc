#include "tests/simulation/plants.h"

#include <algorithm>

namespace buttress::simulation {
namespace {

Plant planted = Plant::kNothing;

}  // namespace

std::optional<Plant> PlantOf(std::string_view name) {
  const auto* const found = std::ranges::find(kPlantNames, name);
  if (found == kPlantNames.end()) return std::nullopt;
  return static_cast<Plant>(found - kPlantNames.begin());
}

void SetPlant(Plant plant) { planted = plant; }

bool Planted(Plant plant) { return planted == plant; }

}  // namespace buttress::simulation
