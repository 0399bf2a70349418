// The files of a dataset, and their format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

enum class DatasetFormat : std::uint8_t { kJsonl, kJsonArray, kCsv, kParquet, kArrow };

struct DatasetFiles {
  DatasetFormat format = DatasetFormat::kJsonl;
  std::vector<std::string> paths;  // in the order of their rows; one unless kParquet or kArrow
};

// Finds the files of `path`: a file; a folder of Hugging Face's save_to_disk; a folder of Parquet
// files, or of a folder data/ with them; or the beginning of their names, as data/train for
// data/train-00000-of-00002.parquet. kInvalidArgument says what else was found, such as several
// splits.
Result<DatasetFiles> FindDatasetFiles(const std::string& path);

}  // namespace buttress
