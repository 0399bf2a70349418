// Finds programs by their names.
#pragma once

#include <string>

namespace buttress {

// Whether `program` is an executable file: the one of that path if the name has a slash, else one
// in a folder of the environment variable PATH.
bool OnPath(const std::string& program);

}  // namespace buttress
