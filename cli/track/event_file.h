// TensorBoard's event files: records of a length, a check, an event and another check
// (tensorflow/core/lib/io/record_writer.h). W&B reads them too (`wandb sync`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/track/tracker.h"

namespace buttress {

// Returns the CRC-32C (Castagnoli) of `bytes` as records hold it: rotated right by 15 bits, plus
// 0xa282ead8.
std::uint32_t MaskedCrc32c(std::string_view bytes);

// Writes one file, which the same steps make byte for byte again: a tracker that starts anew writes
// it from its first step, and a TensorBoard that has it open goes on reading.
class EventFile : public Tracker {
 public:
  // Creates the folder and an event file without steps. kUnavailable if it cannot be written.
  static Result<std::unique_ptr<EventFile>> Create(const std::string& folder);

  Status Add(std::span<const StepMeasurements> steps) override;
  Status AddEvaluations(std::span<const EvalRow> rows) override;
  Status End(RunEnd end) override;

  std::string Place() const override { return path_; }

 private:
  explicit EventFile(std::string path) : path_(std::move(path)) {}

  // Appends whole records, or nothing and returns an error.
  Status Append(const std::string& records);

  const std::string path_;
  std::uint64_t bytes_ = 0;  // of whole records
  std::optional<double> last_step_;
};

}  // namespace buttress
