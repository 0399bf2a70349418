#include "cli/track/event_file.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "buttress/v1/tensorboard.pb.h"
#include "lib/base/file.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::array<std::uint32_t, 256> Crc32cTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

template <class Integer>
std::string BytesOf(Integer value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string Record(const v1::TensorBoardEvent& event) {
  const std::string content = event.SerializeAsString();
  const std::string length = BytesOf(std::uint64_t{content.size()});
  return length + BytesOf(MaskedCrc32c(length)) + content + BytesOf(MaskedCrc32c(content));
}

v1::TensorBoardEvent EventOf(double time_unix, double step) {
  v1::TensorBoardEvent event;
  event.set_wall_time(time_unix);
  event.set_step(static_cast<std::int64_t>(step));
  return event;
}

std::string FirstRecord() {
  v1::TensorBoardEvent event;
  event.set_file_version("brain.Event:2");
  return Record(event);
}

// One event for each step that the scalars are of.
std::string RecordsOf(const std::vector<Scalar>& scalars, double time_unix) {
  std::map<double, v1::TensorBoardEvent> events;
  for (const Scalar& scalar : scalars) {
    v1::TensorBoardEvent& event =
        events.try_emplace(scalar.step, EventOf(time_unix, scalar.step)).first->second;
    v1::TensorBoardSummary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.name);
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  std::string records;
  for (const auto& [of, event] : events) records += Record(event);
  return records;
}

std::string RepeatRecord(const StepMeasurements& step) {
  v1::TensorBoardEvent event = EventOf(step.time_unix, step.step);
  event.mutable_session_log()->set_status(v1::TensorBoardSession::START);
  return Record(event);
}

}  // namespace

std::uint32_t MaskedCrc32c(std::string_view bytes) {
  static constexpr auto kTable = Crc32cTable();
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xff];
  crc = ~crc;
  return std::rotr(crc, 15) + 0xa282ead8u;
}

Result<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  // The number stands for the time of creation, which TensorBoard does not need.
  const std::string path = JoinPath(folder, "events.out.tfevents.0.buttress");
  if (std::remove(path.c_str()) != 0 && errno != ENOENT)
    return Unavailable("cannot replace " + path + ": " + std::strerror(errno));
  std::unique_ptr<EventFile> file(new EventFile(path));
  BUTTRESS_RETURN_IF_ERROR(file->Append(FirstRecord()));
  return file;
}

Status EventFile::Append(const std::string& records) {
  const Status written = AppendToFile(path_, records);
  std::error_code error;
  if (!written.ok())
    std::filesystem::resize_file(path_, bytes_, error);
  else
    bytes_ += records.size();
  return written;
}

Status EventFile::Add(std::span<const StepMeasurements> steps) {
  std::string records;
  std::optional<double> last = last_step_;
  for (const StepMeasurements& step : steps) {
    if (last && step.step <= *last) records += RepeatRecord(step);
    records += RecordsOf(ScalarsOf(step), step.time_unix);
    last = step.step;
  }
  BUTTRESS_RETURN_IF_ERROR(Append(records));
  last_step_ = last;
  return OkStatus();
}

Status EventFile::AddEvaluations(std::span<const EvalRow> rows) {
  std::string records;
  for (const EvalRow& row : rows) records += RecordsOf(ScalarsOf(row), row.time_unix);
  return Append(records);
}

Status EventFile::End(RunEnd) { return OkStatus(); }

}  // namespace buttress
