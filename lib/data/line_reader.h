// Reads the rows of a dataset line by line in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/report/status.h"
#include "lib/data/dataset.h"

namespace buttress {

// Not thread-safe.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

  // Opens a dataset of any format of dataset.h; what is not JSONL is converted to a file without a
  // name. kNotFound if there is no such file, and the errors of OpenAsJsonl.
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path);

  // Sets `line` to the next line without its newline, valid until the next call, and returns true;
  // returns false at the end of the file. kResourceExhausted for a line above kMaxLineBytes.
  Result<bool> Next(std::string_view& line);

  // Begins again at the first line.
  void Rewind();

  std::int64_t number() const { return number_; }  // of the last line, from 1

  std::int64_t bytes() const { return bytes_; }  // read so far

  std::int64_t size() const { return size_; }  // bytes of the file, or of the converted rows

  bool ended() const { return ended_; }  // whether the last line ended with a newline

  const std::string& path() const { return path_; }

  const char* unit() const { return file_.unit(); }

 private:
  LineReader(JsonlFile file, std::string path, std::int64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  const JsonlFile file_;
  const std::string path_;
  const std::int64_t size_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t number_ = 0;
  std::int64_t bytes_ = 0;
  bool ended_ = true;
};

}  // namespace buttress
