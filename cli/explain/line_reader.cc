#include "cli/explain/line_reader.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace buttress {

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument("cannot read " + path + ": " + std::strerror(errno));
  return std::unique_ptr<LineReader>(new LineReader(std::move(file), path));
}

Result<bool> LineReader::Next(std::string_view& line) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::size_t searched = begin_;
  while (true) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = end + 1;
      ++number_;
      return true;
    }
    if (buffer_.size() - begin_ > kMaxLineBytes) {
      return ResourceExhausted(
          fmt::format("{}:{}: a line above {} MiB", path_, number_ + 1, kMaxLineBytes >> 20));
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    buffer_.resize(searched + kChunk);
    file_.read(buffer_.data() + searched, kChunk);
    const auto got = static_cast<std::size_t>(file_.gcount());
    buffer_.resize(searched + got);
    bytes_ += static_cast<std::int64_t>(got);
    if (file_.bad()) return DataLoss(path_ + ": cannot read after byte " + std::to_string(bytes_));
    if (got > 0) continue;
    if (buffer_.empty()) return false;
    line = std::string_view(buffer_);
    begin_ = buffer_.size();
    ended_ = false;
    ++number_;
    return true;
  }
}

}  // namespace buttress
