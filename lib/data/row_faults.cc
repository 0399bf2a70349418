#include "lib/data/row_faults.h"

#include <fmt/core.h>

#include <filesystem>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

// Shown where a file holds all of them, and where there is none.
constexpr std::size_t kShownBesideFile = 5;
constexpr std::size_t kShownAlone = 20;

}  // namespace

std::string BadRowsPath(const std::string& out, const std::string& dataset,
                        const std::string& source) {
  return JoinPath(out, "data/bad_rows_" + dataset + (source.empty() ? "" : "_" + source) + ".txt");
}

void RowFaults::Add(const std::string& place, const std::string& fault) {
  const std::string line = place + ": " + fault;
  if (++count_ <= (log_.empty() ? kShownAlone : kShownBesideFile)) first_ += "\n  " + line;
  if (!log_.empty() && !unwritten_) Write(line);
}

void RowFaults::Write(const std::string& line) {
  if (file_ == nullptr) {
    const std::string folder = std::filesystem::path(log_).parent_path().string();
    if (folder.empty() || MakeFolders(folder).ok()) file_.reset(std::fopen(log_.c_str(), "we"));
  }
  unwritten_ = file_ == nullptr || std::fputs((line + "\n").c_str(), file_.get()) < 0;
}

Status RowFaults::Finish(const std::string& dataset, std::size_t rows) {
  if (count_ == 0) return OkStatus();
  std::string text =
      fmt::format("{}: {} of {} rows cannot be used:{}", dataset, count_, rows, first_);
  const bool written = file_ != nullptr && std::fflush(file_.get()) == 0 && !unwritten_;
  const std::size_t shown = log_.empty() ? kShownAlone : kShownBesideFile;
  if (count_ > shown) text += fmt::format("\n  ... and {} more", count_ - shown);
  if (written) text += "\nall of them: " + log_;
  if (!written && !log_.empty()) text += fmt::format("\n(they could not be written to {})", log_);
  return InvalidArgument(text);
}

}  // namespace buttress
