#include "lib/verify/instructions/arguments.h"

#include <fmt/core.h>

namespace buttress {

using nlohmann::json;

const json* InstructionArguments::Find(const char* name, const char* expected) {
  const auto found = kwargs_.find(name);
  if (found != kwargs_.end()) {
    const std::string_view wanted = expected;
    const bool fits =
        wanted == "a text"     ? found->is_string() && !found->get_ref<const std::string&>().empty()
        : wanted == "a number" ? found->is_number_integer() || found->is_number_float()
                               : found->is_array() && !found->empty();
    if (fits) return &*found;
  }
  if (status_.ok()) {
    status_ =
        InvalidArgument(fmt::format("argument '{}' = {}; expected {}", name,
                                    found == kwargs_.end() ? "nothing" : found->dump(), expected));
  }
  return nullptr;
}

std::int64_t InstructionArguments::Count(const char* name) {
  const json* const value = Find(name, "a number");
  if (value == nullptr) return 0;
  constexpr double kMost = 1e9;
  const double number = value->get<double>();  // rows of IFEval contain 3.0 for 3
  const auto count = number >= 0 && number <= kMost ? static_cast<std::int64_t>(number) : -1;
  if (static_cast<double>(count) == number) return count;
  if (status_.ok())
    status_ = InvalidArgument("argument '" + std::string(name) + "' = " + value->dump() +
                              "; expected an integer, 0 or more");
  return 0;
}

std::string InstructionArguments::Text(const char* name) {
  const json* const value = Find(name, "a text");
  return value == nullptr ? "" : value->get<std::string>();
}

std::vector<std::string> InstructionArguments::Texts(const char* name) {
  const json* const value = Find(name, "a list of texts");
  if (value == nullptr) return {};
  std::vector<std::string> texts;
  for (const json& item : *value) {
    if (item.is_string() && !item.get_ref<const std::string&>().empty()) {
      texts.push_back(item.get<std::string>());
    } else if (status_.ok()) {
      status_ =
          InvalidArgument(fmt::format("argument '{}' holds {}; expected texts", name, item.dump()));
    }
  }
  return texts;
}

bool InstructionArguments::Holds(std::int64_t found, const char* name, const char* relation_name) {
  const std::int64_t count = Count(name);
  const std::string relation = Text(relation_name);
  if (relation == "at least") return found >= count;
  if (relation == "less than") return found < count;
  if (status_.ok())
    status_ = InvalidArgument(fmt::format(
        "argument '{}' = \"{}\"; expected \"at least\" or \"less than\"", relation_name, relation));
  return false;
}

}  // namespace buttress
