// Finds programs by their names.
#pragma once

#include <string>

namespace buttress {

// Returns the path of the executable file `program`: the name itself if it has a slash, else that
// in the first folder of the environment variable PATH that has one. Empty if there is none.
std::string FindProgram(const std::string& program);

// Whether FindProgram finds it.
bool OnPath(const std::string& program);

}  // namespace buttress
