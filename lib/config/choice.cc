#include "lib/config/choice.h"

#include <algorithm>

namespace buttress {
namespace {

constexpr std::size_t kSuggestDistance = 2;

}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::string SuggestNames(std::string_view name, std::span<const std::string_view> known) {
  std::string text = "; ";
  const auto distance = [name](std::string_view other) { return EditDistance(name, other); };
  const auto closest = std::ranges::min_element(known, {}, distance);
  if (closest != known.end() && distance(*closest) <= kSuggestDistance) {
    text.append("did you mean '").append(*closest).append("'? Choose one of:");
  } else {
    text += "choose one of:";
  }
  for (const std::string_view& other : known) {
    text.append(&other == known.data() ? " " : ", ").append(other);
  }
  return text;
}

}  // namespace buttress
