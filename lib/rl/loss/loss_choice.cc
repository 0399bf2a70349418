#include "lib/rl/loss/loss_choice.h"

#include <string>

namespace buttress {

Result<std::size_t> FindChoice(std::span<const LossChoice> choices, std::string_view key,
                               std::string_view name) {
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].name == name) return i;
    names += (names.empty() ? "" : ", ") + std::string(choices[i].name);
  }
  return InvalidArgument("algorithm." + std::string(key) + " = '" + std::string(name) +
                         "' is not known; choose one of: " + names);
}

}  // namespace buttress
