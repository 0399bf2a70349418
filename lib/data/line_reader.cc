#include "lib/data/line_reader.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace buttress {

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(JsonlFile file, OpenAsJsonl(path, /*cache=*/""));

  struct stat about {};

  if (::fstat(file.fd(), &about) != 0)
    return Unavailable(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return std::unique_ptr<LineReader>(
      new LineReader(std::move(file), path, static_cast<std::int64_t>(about.st_size)));
}

void LineReader::Rewind() {
  buffer_.clear();
  begin_ = 0;
  number_ = bytes_ = 0;
  ended_ = true;
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
    if (buffer_.size() - begin_ > kMaxLineBytes)
      return ResourceExhausted(
          fmt::format("{}:{}: a line above {} MiB", path_, number_ + 1, kMaxLineBytes >> 20));
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    buffer_.resize(searched + kChunk);
    const ssize_t got = ::pread(file_.fd(), buffer_.data() + searched, kChunk, bytes_);
    const int error = errno;
    buffer_.resize(searched + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0)
      return DataLoss(
          fmt::format("{}: cannot read after byte {}: {}", path_, bytes_, std::strerror(error)));
    bytes_ += got;
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
