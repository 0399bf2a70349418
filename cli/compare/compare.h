// `buttress compare RUN RUN...`, also used at the end of `buttress launch --seeds`.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Compares the runs in `folders` (comparison.h), prints the table, and writes the page and the JSON
// to the paths that are not empty. Errors as CompareRuns and WriteFileAtomic.
Status CompareAndPrint(const std::vector<std::string>& folders, const std::string& html_path,
                       const std::string& json_path);

}  // namespace buttress
