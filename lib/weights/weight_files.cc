#include "lib/weights/weight_files.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/thread/parallel.h"

namespace buttress {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;
constexpr std::chrono::milliseconds kNotePoll{20};
constexpr std::int64_t kMaxNoteBytes = 1000;
constexpr std::size_t kSha256Bytes = 32;

std::string NoteOf(const std::string& folder, const std::string& name) {
  return JoinPath(folder, name + ".written");
}

Status WriteNote(const std::string& path, const std::string& text) {
  std::ofstream note(path, std::ios::binary);
  note << text << std::flush;
  return note ? OkStatus() : Unavailable("cannot write " + path);
}

// Reads the SHA-256, the number of bytes and the end of a line; nullopt if the note is incomplete.
std::optional<WeightFile> ParseNote(const std::string& name, const std::string& text) {
  if (text.size() <= kSha256Bytes || text.back() != '\n') return std::nullopt;
  WeightFile file{name, 0, text.substr(0, kSha256Bytes)};
  std::from_chars(text.data() + kSha256Bytes, text.data() + text.size(), file.bytes);
  return file;
}

Result<WeightFile> WriteWeightFile(const std::string& folder, const PlannedFile& file,
                                   const BytesOfTensor& bytes_of) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto writer,
                            SafetensorsWriter::Create(JoinPath(folder, file.name), file.tensors,
                                                      {{"format", "pt"}}, Durability::kPageCache));
  for (const auto& tensor : file.tensors)
    BUTTRESS_RETURN_IF_ERROR(writer->Append(bytes_of(tensor.name)));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer->Finish());
  return WeightFile{file.name, writer->data_begin() + file.data_bytes(), sha256};
}

}  // namespace

std::uint64_t DataBytes(const SafetensorsWriter::Declared& tensor) {
  auto bytes = static_cast<std::uint64_t>(SafetensorsElementSize(tensor.dtype));
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

std::uint64_t PlannedFile::data_bytes() const {
  std::uint64_t sum = 0;
  for (const SafetensorsWriter::Declared& tensor : tensors) sum += DataBytes(tensor);
  return sum;
}

std::uint64_t WeightFileLimit() {
  const char* const text = std::getenv("BUTTRESS_WEIGHT_FILE_BYTES");
  return text == nullptr ? kLimit : std::strtoull(text, nullptr, 10);
}

std::vector<PlannedFile> DivideWeights(const std::vector<SafetensorsWriter::Declared>& table,
                                       std::uint64_t limit) {
  std::vector<PlannedFile> files(1);
  std::uint64_t filled = 0;
  for (const SafetensorsWriter::Declared& tensor : table) {
    const std::uint64_t bytes = DataBytes(tensor);
    if (filled + bytes > limit && !files.back().tensors.empty()) {
      files.emplace_back();
      filled = 0;
    }
    filled += bytes;
    files.back().tensors.push_back(tensor);
  }
  files.front().name = kWeightsName;
  for (std::size_t i = 0; i < files.size() && files.size() > 1; ++i)
    files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  return files;
}

std::string WeightsIndexText(const std::vector<PlannedFile>& files) {
  if (files.size() < 2) return "";
  std::map<std::string, std::string> file_of;
  std::uint64_t bytes = 0;
  for (const PlannedFile& file : files) {
    bytes += file.data_bytes();
    for (const SafetensorsWriter::Declared& tensor : file.tensors) file_of[tensor.name] = file.name;
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", file_of}};
  return index.dump(2) + "\n";
}

Result<std::vector<WeightFile>> WriteWeightFiles(const std::string& folder,
                                                 const std::vector<PlannedFile>& files,
                                                 const BytesOfTensor& bytes_of) {
  std::vector<WeightFile> written(files.size());
  BUTTRESS_RETURN_IF_ERROR(RunInParallel(files.size(), [&](std::size_t i) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(written[i], WriteWeightFile(folder, files[i], bytes_of));
    return OkStatus();
  }));
  return written;
}

Status ExpectWritten(const std::string& folder, const std::string& name) {
  return WriteNote(NoteOf(folder, name), "");
}

Status GiveWritten(const std::string& folder, const WeightFile& file) {
  return WriteNote(NoteOf(folder, file.name), file.sha256 + std::to_string(file.bytes) + "\n");
}

Result<WeightFile> AwaitWritten(const std::string& folder, const std::string& name,
                                std::chrono::milliseconds timeout,
                                const std::function<bool()>& given_up) {
  const std::string note = NoteOf(folder, name);
  const double end = MonotonicSeconds() + std::chrono::duration<double>(timeout).count();
  for (;;) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(note, kMaxNoteBytes));
    if (auto file = ParseNote(name, text)) {
      std::error_code ignored;
      std::filesystem::remove(note, ignored);
      return *std::move(file);
    }
    if (given_up()) return Cancelled(JoinPath(folder, name) + " is no longer waited for");
    if (MonotonicSeconds() > end) {
      return DeadlineExceeded(fmt::format("{} was not complete after {} s; check the disk there",
                                          JoinPath(folder, name), timeout.count() / 1000));
    }
    std::this_thread::sleep_for(kNotePoll);
  }
}

}  // namespace buttress
