// Reads a file line by line in bounded memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// Not thread-safe.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

  static Result<std::unique_ptr<LineReader>> Open(const std::string& path);

  // Sets `line` to the next line without its newline, valid until the next call, and returns true;
  // returns false at the end of the file. kResourceExhausted for a line above kMaxLineBytes.
  Result<bool> Next(std::string_view& line);

  std::int64_t number() const { return number_; }  // of the last line, from 1

  std::int64_t bytes() const { return bytes_; }  // read so far

  bool ended() const { return ended_; }  // whether the last line ended with a newline

  const std::string& path() const { return path_; }

 private:
  LineReader(std::ifstream file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  std::ifstream file_;
  const std::string path_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t number_ = 0;
  std::int64_t bytes_ = 0;
  bool ended_ = true;
};

}  // namespace buttress
