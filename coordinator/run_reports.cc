#include "coordinator/run_reports.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/config/run_folder.h"
#include "lib/measure/steps_file.h"

namespace buttress {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

void ReceivedSteps::Take(const std::string& line) {
  if (out_.empty() || line.empty() || line == last_ || line.size() > kMostBytes) return;
  if (std::filesystem::exists(JoinPath(out_, "steps.jsonl"))) return;
  if (line.find('\n') != std::string::npos || !ParseStep(line).ok()) return;
  last_ = line;
  const std::string path = ReceivedStepsPath(out_);
  std::error_code error;
  const std::uintmax_t known = std::filesystem::file_size(path, error);
  const std::uintmax_t bytes = error ? 0 : known;
  const Status added = AppendToFile(path, line + "\n");
  if (added.ok()) return;
  std::filesystem::resize_file(path, bytes, error);  // takes back a part of the line
  if (warned_) return;
  warned_ = true;
  Log(kWarn, "the page has no curves: a step of the learner could not be kept",
      {{"why", added.message()}});
}

}  // namespace buttress
