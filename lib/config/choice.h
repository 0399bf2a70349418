// Settings that take one of a few names.
//
// Such a setting is an enumeration, and one table gives each of its values a name. YAML, --set,
// error messages, --describe-config and the documentation read that table, so that a name is
// written once:
//
//   enum class StdKind : std::uint8_t { kSample, kPopulation, kNone };
//   template <>
//   inline constexpr ChoiceRow<StdKind> kChoices<StdKind>[] = {
//       {StdKind::kSample, "sample"},
//       {StdKind::kPopulation, "population"},
//       {StdKind::kNone, "none"},
//   };
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// One value of a setting.
template <class E>
struct ChoiceRow {
  E value;
  std::string_view name;
  std::string_view help = "";  // shown in parentheses behind the name
};

// The table of an enumeration, in the order of the documentation. Its specialisation follows
// the enumeration.
template <class E>
inline constexpr std::nullptr_t kChoices = nullptr;

// An enumeration that has a table.
template <class E>
concept Choice = std::is_array_v<std::remove_cvref_t<decltype(kChoices<E>)>>;

// Name of `value`; empty for a value without a row.
template <Choice E>
constexpr std::string_view ChoiceName(E value) {
  for (const ChoiceRow<E>& row : kChoices<E>) {
    if (row.value == value) return row.name;
  }
  return {};
}

// Levenshtein distance: the least number of inserted, removed and replaced bytes. Pure.
std::size_t EditDistance(std::string_view a, std::string_view b);

// "; did you mean 'grpo'? Choose one of: grpo, dr_grpo, rloo", or "; choose one of: ..." where no
// known name is within two edits of `name`.
std::string SuggestNames(std::string_view name, std::span<const std::string_view> known);

// Value of `name`. kInvalidArgument: "'gpro' is unknown; did you mean 'grpo'? Choose one of: ...".
template <Choice E>
Result<E> FindChoice(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ChoiceRow<E>& row : kChoices<E>) {
    if (row.name == name) return row.value;
    known.push_back(row.name);
  }
  return InvalidArgument("'" + std::string(name) + "' is unknown" + SuggestNames(name, known));
}

// "sample | population | none", each name with its help.
template <Choice E>
std::string DescribeChoices() {
  std::string text;
  for (const ChoiceRow<E>& row : kChoices<E>) {
    text.append(text.empty() ? "" : " | ").append(row.name);
    if (!row.help.empty()) text.append(" (").append(row.help).append(")");
  }
  return text;
}

}  // namespace buttress
