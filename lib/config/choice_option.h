// Command line options that take the names of a setting's values (choice.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lib/config/choice.h"

namespace buttress {

// Adds option `name` for `value`, whose present value is the default. An unknown name is a
// CLI::ValidationError that lists the known ones.
template <Choice E>
CLI::Option* AddChoice(CLI::App& app, const std::string& name, E& value, const std::string& help) {
  const auto set = [&value](const std::string& text) {
    const Result<E> found = FindChoice<E>(text);
    if (!found.ok()) throw CLI::ValidationError(found.status().message());
    value = *found;
  };
  return app.add_option_function<std::string>(name, set, help + ": " + DescribeChoices<E>())
      ->default_str(std::string(ChoiceName(value)));
}

}  // namespace buttress
