#include "lib/data/prompt_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
#include "lib/data/row_faults.h"

namespace buttress {
namespace {

// A lease carries the row and, once more, its answer and its prompt's tokens: less than
// kMaxResponseBytes of lib/rpc/channel.h.
constexpr std::size_t kMaxRowBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxDroppedShown = 20;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

bool IsBlank(std::string_view row) {
  return row.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

// Collects invalid rows and finds duplicate ids.
class PromptFile::Check {
 public:
  Check(const char* unit, const std::string& log) : faults_(unit, log) {}

  void Reject(std::uint32_t line, const std::string& what) { faults_.Add(line, what); }

  // Accepts a row unless its id is a duplicate. Only hashes of ids are kept, so that a million rows
  // take little memory; rows with equal hashes are read again.
  void Accept(const PromptFile& file, std::size_t row, const std::string& id) {
    const auto [first, last] = row_by_id_hash_.equal_range(HashText(id));
    for (auto other = first; other != last; ++other) {
      const auto prompt = file.Read(other->second);
      if (prompt.ok() && prompt->id == id)
        return Reject(file.rows_[row].line, "id '" + id + "' appears in " +
                                                file.Place(file.rows_[other->second].line) +
                                                " already");
    }
    row_by_id_hash_.emplace(HashText(id), row);
  }

  void Drop(std::size_t line) {
    if (dropped_.count == kMaxDroppedShown) dropped_.first += ", ...";
    if (++dropped_.count > kMaxDroppedShown) return;
    dropped_.first += (dropped_.count == 1 ? "" : ", ") + std::to_string(line);
  }

  Result<DroppedRows> Finish(const PromptFile& file) {
    if (dropped_.count == file.size())
      return InvalidArgument(file.path_ + ": every prompt is longer than " +
                             file.parser_.Key("max_prompt_tokens") +
                             " or the model's positions allow");
    BUTTRESS_RETURN_IF_ERROR(faults_.Finish(file.path_, file.size()));
    return dropped_;
  }

 private:
  DroppedRows dropped_;
  RowFaults faults_;
  std::unordered_multimap<std::uint64_t, std::size_t> row_by_id_hash_;
};

Result<std::unique_ptr<PromptFile>> PromptFile::Open(const std::string& path,
                                                     const DataConfig& config,
                                                     const Tokenizer& tokenizer,
                                                     AnswerForms answers,
                                                     const std::string& cache) {
  PromptDataset dataset{.name = {}, .section = "run.data", .data = config};
  dataset.data.prompts = path;
  return Open(dataset, tokenizer, std::move(answers), cache);
}

Result<std::unique_ptr<PromptFile>> PromptFile::Open(const PromptDataset& dataset,
                                                     const Tokenizer& tokenizer,
                                                     AnswerForms answers,
                                                     const std::string& cache) {
  const std::string& path = dataset.data.prompts;
  BUTTRESS_ASSIGN_OR_RETURN(PromptParser parser,
                            PromptParser::Create(dataset, tokenizer, std::move(answers)));
  BUTTRESS_ASSIGN_OR_RETURN(JsonlFile jsonl, OpenAsJsonl(path, cache));
  std::unique_ptr<PromptFile> file(new PromptFile(path, std::move(jsonl), std::move(parser)));
  BUTTRESS_RETURN_IF_ERROR(file->FindRows());
  if (file->rows_.empty()) return InvalidArgument(path + " contains no prompts");
  return file;
}

Status PromptFile::FindRows() {
  Sha256 sha256;
  std::vector<char> buffer(kReadBytes);
  Row row{0, 0, 1};
  std::uint64_t bytes = 0;  // of the row so far
  bool blank = true;
  const auto end_row = [&]() -> Status {
    if (!blank && bytes > std::numeric_limits<std::uint32_t>::max())
      return InvalidArgument(
          fmt::format("{}, {} is longer than {} bytes", path_, Place(row.line), kMaxRowBytes));
    row.bytes = static_cast<std::uint32_t>(bytes);
    if (!blank) rows_.push_back(row);
    row = {row.offset + bytes + 1, 0, row.line + 1};
    bytes = 0;
    blank = true;
    return OkStatus();
  };
  for (std::uint64_t offset = 0;;) {
    const ssize_t n = ::pread(file_.fd(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0) return Unavailable(fmt::format("reading {} failed after {} bytes", path_, offset));
    if (n == 0) break;
    offset += static_cast<std::uint64_t>(n);
    std::string_view text(buffer.data(), static_cast<std::size_t>(n));
    sha256.Update(text);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      blank = blank && IsBlank(text.substr(0, end));
      bytes += end;
      if (end < text.size()) BUTTRESS_RETURN_IF_ERROR(end_row());
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  sha256_ = ToHex(sha256.Finish());
  return end_row();
}

std::string PromptFile::Place(std::uint32_t line) const {
  return fmt::format("{} {}", file_.unit(), line);
}

Result<DroppedRows> PromptFile::CheckRows(const std::atomic<bool>& stop,
                                          const std::string& log) const {
  Check check(file_.unit(), log);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (stop) return Cancelled("the check of the dataset was stopped");
    const auto prompt = ReadRow(row);
    if (prompt.ok()) {
      check.Accept(*this, row, prompt->id);
    } else if (prompt.status().code() == StatusCode::kInvalidArgument) {
      check.Reject(rows_[row].line, prompt.status().message());
    } else if (prompt.status().code() == StatusCode::kOutOfRange) {
      check.Drop(rows_[row].line);
    } else {
      return prompt.status();
    }
  }
  return check.Finish(*this);
}

Result<Prompt> PromptFile::Read(std::size_t row) const {
  BUTTRESS_CHECK(row < rows_.size(), "row beyond the end of the prompts");
  auto prompt = ReadRow(row);
  if (prompt.ok()) return prompt;
  return prompt.status().Annotate(fmt::format("{}, {}", path_, Place(rows_[row].line)));
}

Result<std::vector<std::uint64_t>> PromptFile::SortedHashes() const {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(rows_.size());
  for (const Row& row : rows_) {
    if (row.bytes > kMaxRowBytes) continue;
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadText(row));
    if (const auto hash = parser_.HashPrompt(text)) hashes.push_back(*hash);
  }
  std::ranges::sort(hashes);
  return hashes;
}

Result<std::string> PromptFile::ReadText(const Row& row) const {
  std::string text(row.bytes, '\0');
  const ssize_t n = ::pread(file_.fd(), text.data(), text.size(), static_cast<off_t>(row.offset));
  if (n != static_cast<ssize_t>(text.size()))
    return DataLoss("the row is not what it was at start; prompts must not change during a run");
  return text;
}

Result<Prompt> PromptFile::ReadRow(std::size_t row) const {
  const Row& place = rows_[row];
  if (place.bytes > kMaxRowBytes)
    return InvalidArgument("longer than " + std::to_string(kMaxRowBytes) + " bytes");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadText(place));
  return parser_.Parse(text, place.line);
}

}  // namespace buttress
