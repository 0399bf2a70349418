#include "lib/data/prompt_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "lib/base/random.h"

namespace buttress {
namespace {

// A lease carries the row and, once more, its answer and its prompt's tokens: less than
// kMaxResponseBytes of lib/rpc/channel.h.
constexpr std::size_t kMaxRowBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxReported = 20;

bool IsBlank(std::string_view row) {
  return row.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

// Collects invalid rows and finds duplicate ids.
class PromptFile::Check {
 public:
  void Reject(std::size_t line, const std::string& what) {
    ++bad_;
    if (bad_ <= kMaxReported) report_ += "\n  line " + std::to_string(line) + ": " + what;
  }

  // Accepts a row unless its id is a duplicate. Only hashes of ids are kept, so that a million rows
  // take little memory; rows with equal hashes are read again.
  void Accept(const PromptFile& file, std::size_t row, const std::string& id) {
    const auto [first, last] = row_by_id_hash_.equal_range(HashText(id));
    for (auto other = first; other != last; ++other) {
      const auto prompt = file.Read(other->second);
      if (prompt.ok() && prompt->id == id) {
        return Reject(file.rows_[row].line, "id '" + id + "' stands in line " +
                                                std::to_string(file.rows_[other->second].line) +
                                                " already");
      }
    }
    row_by_id_hash_.emplace(HashText(id), row);
  }

  Status Finish(const PromptFile& file) const {
    if (bad_ > 0) {
      const std::string more =
          bad_ > kMaxReported ? "\n  ... and " + std::to_string(bad_ - kMaxReported) + " more" : "";
      return InvalidArgument(
          fmt::format("{}: {} rows cannot be used:{}{}", file.path_, bad_, report_, more));
    }
    if (file.rows_.empty()) return InvalidArgument(file.path_ + " contains no prompts");
    return OkStatus();
  }

 private:
  std::size_t bad_ = 0;
  std::string report_;
  std::unordered_multimap<std::uint64_t, std::size_t> row_by_id_hash_;
};

PromptFile::~PromptFile() { ::close(fd_); }

Result<std::unique_ptr<PromptFile>> PromptFile::Open(const std::string& path,
                                                     const DataConfig& config,
                                                     const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(PromptParser parser, PromptParser::Create(config, tokenizer));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return InvalidArgument(
        fmt::format("cannot open the prompts {}: {}", path, std::strerror(errno)));
  }
  std::unique_ptr<PromptFile> file(new PromptFile(path, fd, std::move(parser)));

  std::ifstream lines(path, std::ios::binary);
  Check check;
  std::string row;
  std::uint64_t offset = 0;
  for (std::uint32_t line = 1; std::getline(lines, row); ++line) {
    const std::uint64_t begin = offset;
    offset += row.size() + 1;
    if (IsBlank(row)) continue;
    if (row.size() > kMaxRowBytes) {
      check.Reject(line, "longer than " + std::to_string(kMaxRowBytes) + " bytes");
      continue;
    }
    const auto prompt = file->parser_.Parse(row, line);
    file->rows_.push_back({begin, static_cast<std::uint32_t>(row.size()), line});
    if (prompt.ok()) {
      check.Accept(*file, file->rows_.size() - 1, prompt->id);
    } else {
      check.Reject(line, prompt.status().message());
    }
  }
  if (lines.bad()) {
    return Unavailable(fmt::format("reading {} failed after {} bytes", path, offset));
  }
  BUTTRESS_RETURN_IF_ERROR(check.Finish(*file));
  return file;
}

Result<Prompt> PromptFile::Read(std::size_t row) const {
  BUTTRESS_CHECK(row < rows_.size(), "row beyond the end of the prompts");
  const Row& place = rows_[row];
  std::string text(place.bytes, '\0');
  const ssize_t n = ::pread(fd_, text.data(), text.size(), static_cast<off_t>(place.offset));
  auto prompt = parser_.Parse(text, place.line);
  if (n != static_cast<ssize_t>(text.size()) || !prompt.ok()) {
    return DataLoss(
        fmt::format("{}, line {} is not what it was at start; prompts must not change during a run",
                    path_, place.line));
  }
  return prompt;
}

}  // namespace buttress
