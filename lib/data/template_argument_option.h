// The command line option of what a chat template reads.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace buttress {

// Adds `--template-argument NAME=VALUE` for TextEncoder's `arguments`. A word without a name and an
// equals sign is a CLI::ValidationError.
inline CLI::Option* AddTemplateArgument(CLI::App& app,
                                        std::map<std::string, std::string>& arguments) {
  const auto add = [&arguments](const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const std::size_t equals = word.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw CLI::ValidationError("--template-argument " + word + ": expected NAME=VALUE");
      arguments[word.substr(0, equals)] = word.substr(equals + 1);
    }
  };
  return app.add_option_function<std::vector<std::string>>(
      "--template-argument", add,
      "messages: NAME=VALUE that the chat template reads, as in run.data.template_arguments; may "
      "be repeated");
}

}  // namespace buttress
