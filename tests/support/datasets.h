// Public data sets that tests read where they are present.
#pragma once

#include <cstdlib>
#include <string>

namespace buttress {

// Returns the path of the file `name` in the folder of data sets: $BUTTRESS_DATA, or ../shared/data
// next to the repository.
inline std::string DataSetPath(const std::string& name) {
  const char* given = std::getenv("BUTTRESS_DATA");
  return (given != nullptr ? given : BUTTRESS_SOURCE_DIR "/../shared/data") + ("/" + name);
}

}  // namespace buttress
