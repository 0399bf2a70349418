// The source files of a function in Python, found without running it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace buttress {

inline constexpr std::size_t kMostModules = 1000;

// Returns `file`, and the modules that it and they import from its folder or below, sorted behind
// it: those that an import statement names, wherever it stands. A module that only importlib or
// another entry of sys.path finds is none of them. At most kMostModules.
std::vector<std::string> LocalModules(const std::string& file);

}  // namespace buttress
