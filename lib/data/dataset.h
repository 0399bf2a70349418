// Datasets as people have them, as JSONL rows: JSONL as it is, and JSON arrays, CSV, Parquet and
// Hugging Face folders converted once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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

// An open file of JSONL. Owns the descriptor.
class JsonlFile {
 public:
  JsonlFile(int fd, bool converted) : fd_(fd), converted_(converted) {}

  ~JsonlFile();
  JsonlFile(JsonlFile&& other) noexcept;
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;

  int fd() const { return fd_; }

  // What messages call a line: "line", or "row" where line n is row n of a dataset that was not
  // JSONL.
  const char* unit() const { return converted_ ? "row" : "line"; }

 private:
  int fd_;
  const bool converted_;
};

// Opens a dataset as JSONL. What is not JSONL is converted to <cache>/<SHA-256 of the
// dataset>.jsonl, which appears whole or not at all and is used again; with an empty `cache` to a
// file without a name. kInvalidArgument for a file that is not of its format, or of none that is
// known.
Result<JsonlFile> OpenAsJsonl(const std::string& path, const std::string& cache);

// Receives the rows of a dataset as JSON objects, each in a line.
using RowSink = std::function<Status(std::string_view row)>;

// Reads a JSON array of objects, or CSV (RFC 4180) whose first record names the fields; a field of
// CSV is a text. Memory holds one row. Thread-safe.
Status ReadJsonArray(const std::string& path, const RowSink& sink);
Status ReadCsv(const std::string& path, const RowSink& sink);

}  // namespace buttress
