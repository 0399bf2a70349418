#include "lib/weights/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "lib/base/file.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the bound of the reference implementation
constexpr std::int64_t kMaxIndexBytes = 100'000'000;

// Read-only mapping of a whole file.
class MappedFile {
 public:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}

  ~MappedFile() { ::munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  static Result<std::unique_ptr<MappedFile>> Open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      const int error = errno;
      const std::string message = "open " + path + ": " + std::strerror(error);
      return error == ENOENT ? NotFound(message) : Unavailable(message);
    }

    struct stat info {};

    const bool known = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (!known || info.st_size < static_cast<off_t>(kLengthBytes)) {
      ::close(fd);
      return DataLoss(path +
                      " is not a safetensors file: it must be a regular file of at least 8 bytes");
    }
    const auto size = static_cast<std::size_t>(info.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (data == MAP_FAILED) return Unavailable("map " + path + ": " + std::strerror(error));
    return std::make_unique<MappedFile>(std::string_view(static_cast<const char*>(data), size));
  }

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

struct Span {
  TensorView tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Result<std::vector<std::int64_t>> ReadShape(const Json& json) {
  if (!json.is_array()) return DataLoss("'shape' is not a list");
  std::vector<std::int64_t> shape;
  for (const Json& extent : json) {
    if (!extent.is_number_unsigned() ||
        extent.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return DataLoss("'shape' holds " + extent.dump() + "; whole numbers from 0 are expected");
    }
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

// One entry of the header, checked against the `data_bytes` behind the header.
Result<Span> ReadEntry(const std::string& name, const Json& entry, std::uint64_t data_bytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return DataLoss("the entry must be an object with dtype, shape and data_offsets");
  }
  Span span;
  span.tensor.name = name;
  if (!entry["dtype"].is_string()) return DataLoss("'dtype' is not a string");
  span.tensor.dtype = entry["dtype"].get<std::string>();
  const std::int64_t element = SafetensorsElementSize(span.tensor.dtype);
  if (element == 0) return DataLoss("dtype '" + span.tensor.dtype + "' is not known");
  BUTTRESS_ASSIGN_OR_RETURN(span.tensor.shape, ReadShape(entry["shape"]));
  std::uint64_t bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t extent : span.tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return DataLoss("shape " + entry["shape"].dump() + " overflows");
    }
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return DataLoss("'data_offsets' must be two whole numbers");
  }
  span.begin = offsets[0].get<std::uint64_t>();
  span.end = offsets[1].get<std::uint64_t>();
  if (span.begin > span.end || span.end > data_bytes) {
    return DataLoss("data_offsets " + offsets.dump() + " lie outside the " +
                    std::to_string(data_bytes) + " bytes of data");
  }
  if (span.end - span.begin != bytes) {
    return DataLoss("data_offsets " + offsets.dump() + " span " +
                    std::to_string(span.end - span.begin) + " bytes, but " + span.tensor.dtype +
                    " of shape " + entry["shape"].dump() + " has " + std::to_string(bytes));
  }
  return span;
}

// Parses a JSON object; a name that stands twice is an error, which plain parsing would hide.
Result<Json> ParseTable(std::string_view text) {
  std::set<std::string> names;
  std::string repeated;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  Json table = Json::parse(text, look, /*allow_exceptions=*/false);
  if (table.is_discarded() || !table.is_object())
    return DataLoss("the header is not a JSON object");
  if (!repeated.empty()) return DataLoss("tensor '" + repeated + "' stands twice in the header");
  return table;
}

// The spans in file order; the format demands that they cover all data bytes, without holes or
// overlaps.
Result<std::vector<Span>> ReadTable(const Json& table, std::uint64_t data_bytes) {
  std::vector<Span> spans;
  for (const auto& [name, entry] : table.items()) {
    if (name == "__metadata__") continue;
    Result<Span> span = ReadEntry(name, entry, data_bytes);
    if (!span.ok()) return span.status().Annotate("tensor '" + name + "'");
    spans.push_back(*std::move(span));
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t covered = 0;
  for (const Span& span : spans) {
    if (span.begin != covered) {
      return DataLoss("tensor '" + span.tensor.name + "' begins at byte " +
                      std::to_string(span.begin) + " where byte " + std::to_string(covered) +
                      " is expected: overlap or hole");
    }
    covered = span.end;
  }
  if (covered != data_bytes) {
    return DataLoss("the tensors cover " + std::to_string(covered) + " of " +
                    std::to_string(data_bytes) + " data bytes");
  }
  return spans;
}

class MappedSafetensors : public SafetensorsFile {
 public:
  MappedSafetensors(std::unique_ptr<MappedFile> file, std::vector<TensorView> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
  }

  const std::vector<TensorView>& tensors() const override { return tensors_; }

  const TensorView* Find(std::string_view name) const override {
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }

 private:
  std::unique_ptr<MappedFile> file_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

class ShardedFolder : public SafetensorsFolder {
 public:
  Status AddAll(const std::string& path) {
    BUTTRESS_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
    for (const TensorView& tensor : file->tensors()) by_name_[tensor.name] = &tensor;
    files_[path] = std::move(file);
    return OkStatus();
  }

  Status AddOne(const std::string& path, const std::string& name) {
    if (!files_.contains(path)) {
      BUTTRESS_ASSIGN_OR_RETURN(files_[path], SafetensorsFile::Open(path));
    }
    const TensorView* tensor = files_[path]->Find(name);
    if (tensor == nullptr)
      return DataLoss(path + " lacks tensor '" + name + "', which the index says it holds");
    by_name_[name] = tensor;
    return OkStatus();
  }

  const TensorView* Find(std::string_view name) const override {
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? nullptr : found->second;
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : by_name_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const TensorView*> by_name_;
};

}  // namespace

std::int64_t SafetensorsElementSize(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  const std::string_view bytes = file->bytes();
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    return DataLoss(path + ": the header is said to have " + std::to_string(header_bytes) +
                    " bytes; the file has " + std::to_string(bytes.size()) +
                    " and a header at most " + std::to_string(kMaxHeaderBytes));
  }
  const std::string_view data = bytes.substr(kLengthBytes + header_bytes);
  Result<Json> table = ParseTable(bytes.substr(kLengthBytes, header_bytes));
  if (!table.ok()) return table.status().Annotate(path);
  Result<std::vector<Span>> spans = ReadTable(*table, data.size());
  if (!spans.ok()) return spans.status().Annotate(path);
  std::vector<TensorView> tensors;
  for (Span& span : *spans) {
    span.tensor.data = data.substr(span.begin, span.end - span.begin);
    tensors.push_back(std::move(span.tensor));
  }
  return std::unique_ptr<SafetensorsFile>(
      std::make_unique<MappedSafetensors>(std::move(file), std::move(tensors)));
}

Result<std::unique_ptr<SafetensorsFolder>> SafetensorsFolder::Open(const std::string& folder) {
  auto opened = std::make_unique<ShardedFolder>();
  const std::string whole = JoinPath(folder, "model.safetensors");
  const std::string index_path = JoinPath(folder, "model.safetensors.index.json");
  Result<std::string> text = ReadFile(index_path, kMaxIndexBytes);
  if (text.status().code() == StatusCode::kNotFound) {
    const Status status = opened->AddAll(whole);
    if (status.code() == StatusCode::kNotFound) {
      return NotFound(folder + " holds neither model.safetensors nor model.safetensors.index.json");
    }
    BUTTRESS_RETURN_IF_ERROR(status);
    return std::unique_ptr<SafetensorsFolder>(std::move(opened));
  }
  if (!text.ok()) return text.status();
  const Json index = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return DataLoss(index_path + " is not a JSON object with an object 'weight_map'");
  }
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || !IsPlainFileName(file.get<std::string>())) {
      return DataLoss(index_path + ": tensor '" + name + "' lies in " + file.dump() +
                      "; a file of the folder is expected");
    }
    BUTTRESS_RETURN_IF_ERROR(opened->AddOne(JoinPath(folder, file.get<std::string>()), name));
  }
  return std::unique_ptr<SafetensorsFolder>(std::move(opened));
}

}  // namespace buttress
