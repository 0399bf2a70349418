#include "lib/data/row_faults.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

// Different faults that are shown, and rows of each.
constexpr std::size_t kShownWithFile = 5;
constexpr std::size_t kShownAlone = 20;
constexpr std::size_t kShownRows = 5;

}  // namespace

std::string BadRowsPath(const std::string& out, const std::string& dataset,
                        const std::string& source) {
  return JoinPath(out, "data/bad_rows_" + dataset + (source.empty() ? "" : "_" + source) + ".txt");
}

void RowFaults::Add(std::int64_t number, const std::string& fault) {
  ++count_;
  if (!log_.empty() && !unwritten_) Write(fmt::format("{} {}: {}", unit_, number, fault));
  const auto known = std::ranges::find(faults_, fault, &Fault::text);
  if (known != faults_.end()) {
    if (known->count++ < kShownRows) known->first_rows += fmt::format(", {}", number);
  } else if (faults_.size() < (log_.empty() ? kShownAlone : kShownWithFile)) {
    faults_.push_back({fault, 1, std::to_string(number)});
  } else {
    ++unshown_;
  }
}

void RowFaults::Write(const std::string& line) {
  if (file_ == nullptr) {
    const std::string folder = std::filesystem::path(log_).parent_path().string();
    if (folder.empty() || MakeFolders(folder).ok()) file_.reset(std::fopen(log_.c_str(), "we"));
  }
  unwritten_ = file_ == nullptr || std::fputs((line + "\n").c_str(), file_.get()) < 0;
}

std::string RowFaults::Describe(const Fault& fault) const {
  if (fault.count == 1) return fmt::format("{} {}: {}", unit_, fault.first_rows, fault.text);
  return fmt::format("{} rows: {}: {}s {}{}", fault.count, fault.text, unit_, fault.first_rows,
                     fault.count > kShownRows ? ", ..." : "");
}

Status RowFaults::Finish(const std::string& dataset, std::size_t rows) {
  if (count_ == 0) return OkStatus();
  std::string text = fmt::format("{}: {} of {} rows cannot be used:", dataset, count_, rows);
  for (const Fault& fault : faults_) text += "\n  " + Describe(fault);
  const bool written = file_ != nullptr && std::fflush(file_.get()) == 0 && !unwritten_;
  if (unshown_ > 0)
    text +=
        fmt::format("\n  ... and {} row{} with other faults", unshown_, unshown_ == 1 ? "" : "s");
  if (written) text += "\nall of them: " + log_;
  if (!written && !log_.empty()) text += fmt::format("\n(they could not be written to {})", log_);
  return InvalidArgument(text);
}

}  // namespace buttress
