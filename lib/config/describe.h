// A description of the settings: every whole key with its default and meaning, and the search for
// keys.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// "run.optim.lr  (1e-06)  peak learning rate", one line per setting.
std::string DescribeRunConfig();

// The same lines for the settings that have each of the `words` in their key or meaning, whatever
// the case, and the same settings with their defaults as YAML. kInvalidArgument if there is none.
Result<std::string> DescribeSettings(std::string_view words);

// The whole keys, of settings and of sections, that a wrong key may mean: those that end in it
// ("run.optim.lr" for "optim.lr" and "lr"), else the nearest by letters. Empty if none is near;
// three at most.
std::string SuggestWholeKeys(std::string_view key);

}  // namespace buttress
