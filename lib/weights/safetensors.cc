#include "lib/weights/safetensors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/text/digest.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::int64_t kMaxIndexBytes = 100'000'000;
constexpr int kHeaderDepth = 3;            // table, entry, shape
constexpr std::int64_t kEntryValues = 64;  // strings and numbers of an entry, at most

// A tensor and its bytes [begin, end) of the data section.
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
      return DataLoss(fmt::format("'shape' has {}; expected non-negative integers", extent.dump()));
    }
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

// Reads one entry of the header, and checks it against the size of the data section.
Result<Span> ReadEntry(const std::string& name, const Json& entry, std::uint64_t data_bytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return DataLoss("expected an object with dtype, shape and data_offsets");
  }
  Span span;
  span.tensor.name = name;
  if (!entry["dtype"].is_string()) return DataLoss("'dtype' is not a string");
  span.tensor.dtype = entry["dtype"].get<std::string>();
  const std::int64_t element = SafetensorsElementSize(span.tensor.dtype);
  if (element == 0) return DataLoss("unknown dtype '" + span.tensor.dtype + "'");
  BUTTRESS_ASSIGN_OR_RETURN(span.tensor.shape, ReadShape(entry["shape"]));
  std::uint64_t bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t extent : span.tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return DataLoss("shape " + entry["shape"].dump() + " overflows 64 bits");
    }
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return DataLoss("'data_offsets' is not a pair of non-negative integers");
  }
  span.begin = offsets[0].get<std::uint64_t>();
  span.end = offsets[1].get<std::uint64_t>();
  if (span.begin > span.end || span.end > data_bytes) {
    return DataLoss(fmt::format("data_offsets {} are outside the {} bytes of data", offsets.dump(),
                                data_bytes));
  }
  if (span.end - span.begin != bytes) {
    return DataLoss(fmt::format("data_offsets {} span {} bytes, but {} of shape {} has {}",
                                offsets.dump(), span.end - span.begin, span.tensor.dtype,
                                entry["shape"].dump(), bytes));
  }
  return span;
}

// Reads the entries while the header is parsed and keeps none of its JSON, which would be thirty
// times as large as the text.
class TableReader {
 public:
  explicit TableReader(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  // What Json::parse calls; returns false for what it shall forget.
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    const bool end = event == Event::object_end || event == Event::array_end;
    if (!status_.ok() || (depth > 0 && event != Event::key && !in_entry_)) return false;
    if (depth == 1 && event == Event::key) return Begin(value.get<std::string>());
    if (depth == 1 && (end || event == Event::value)) return Finish(value);
    if (depth > 1 && (name_ == kMetadata || ++values_ > kEntryValues)) return Overfull();
    return true;
  }

  const Status& status() const { return status_; }

  std::vector<Span>&& spans() && { return std::move(spans_); }

 private:
  static constexpr std::string_view kMetadata = "__metadata__";

  bool Begin(std::string name) {
    name_ = std::move(name);
    values_ = 0;
    in_entry_ = true;
    if (!names_.insert(name_).second)
      status_ = DataLoss("tensor '" + name_ + "' is in the header twice");
    return status_.ok();
  }

  bool Finish(const Json& entry) {
    in_entry_ = false;
    if (name_ == kMetadata) return false;
    Result<Span> span = ReadEntry(name_, entry, data_bytes_);
    if (span.ok()) spans_.push_back(*std::move(span));
    if (!span.ok()) status_ = span.status().Annotate("tensor '" + name_ + "'");
    return false;
  }

  bool Overfull() {
    if (name_ != kMetadata) {
      status_ = DataLoss(
          fmt::format("tensor '{}' has more than {} values in its entry", name_, kEntryValues));
    }
    return false;
  }

  const std::uint64_t data_bytes_;
  Status status_ = OkStatus();
  std::string name_;  // of the entry that is parsed
  std::int64_t values_ = 0;
  bool in_entry_ = false;
  std::set<std::string> names_;
  std::vector<Span> spans_;
};

// Reads the spans in the order of their data. The format demands that they cover the data section
// without holes or overlaps, and that no name appears twice, which the parser would accept.
Result<std::vector<Span>> ReadTable(std::string_view header, std::uint64_t data_bytes) {
  if (NestedDeeper(header, kHeaderDepth))
    return DataLoss(fmt::format("the header is nested deeper than {}", kHeaderDepth));
  TableReader reader(data_bytes);
  const Json table = Json::parse(header, std::ref(reader), /*allow_exceptions=*/false);
  BUTTRESS_RETURN_IF_ERROR(reader.status());
  if (table.is_discarded() || !table.is_object())
    return DataLoss("the header is not a JSON object");
  std::vector<Span> spans = std::move(reader).spans();
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t covered = 0;
  for (const Span& span : spans) {
    if (span.begin != covered) {
      return DataLoss(fmt::format("tensor '{}' begins at byte {}, expected {}: overlap or hole",
                                  span.tensor.name, span.begin, covered));
    }
    covered = span.end;
  }
  if (covered != data_bytes) {
    return DataLoss(fmt::format("the tensors cover {} of {} bytes of data", covered, data_bytes));
  }
  return spans;
}

using Json = nlohmann::json;

// The data begins at a multiple of this, as the reference implementation pads it.
constexpr std::size_t kAlignment = 8;

Result<std::uint64_t> BytesOf(const SafetensorsWriter::Declared& tensor) {
  const std::int64_t element = SafetensorsElementSize(tensor.dtype);
  if (element == 0) {
    return InvalidArgument(
        fmt::format("tensor '{}' has the unknown dtype '{}'", tensor.name, tensor.dtype));
  }
  std::uint64_t bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return InvalidArgument(fmt::format(
          "tensor '{}' has extent {}, which is negative or too large", tensor.name, extent));
    }
  }
  return bytes;
}

bool IsPrintable(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

std::int64_t SafetensorsElementSize(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

// Opens and maps a whole file read-only.
Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Map(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // FIFO: no wait
  if (fd.get() < 0) {
    const int error = errno;
    const std::string message = fmt::format("open {}: {}", path, std::strerror(error));
    return error == ENOENT ? NotFound(message) : Unavailable(message);
  }
  struct stat info = {};
  const bool known = ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  if (!known || info.st_size < static_cast<off_t>(kLengthBytes)) {
    return DataLoss(path +
                    " is not a safetensors file: expected a regular file of 8 bytes or more");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return Unavailable(fmt::format("map {}: {}", path, std::strerror(errno)));
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(
      path, std::move(fd), std::string_view(static_cast<const char*>(data), size), info.st_mtim));
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(auto file, Map(path));
  const std::string_view bytes = file->mapped_;
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    return DataLoss(
        fmt::format("{} has {} bytes and states a header of {}; the limit of a header is {}", path,
                    bytes.size(), header_bytes, kMaxHeaderBytes));
  }
  const std::string_view data = bytes.substr(kLengthBytes + header_bytes);
  Result<std::vector<Span>> spans =
      ReadTable(bytes.substr(kLengthBytes, header_bytes), data.size());
  if (!spans.ok()) return spans.status().Annotate(path);
  for (Span& span : *spans) {
    span.tensor.data = data.substr(span.begin, span.end - span.begin);
    span.tensor.file = file.get();
    file->index_[span.tensor.name] = file->tensors_.size();
    file->tensors_.push_back(std::move(span.tensor));
  }
  return file;
}

void ForgetPages(std::string_view data) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + data.size()) / page * page;
  // A failure leaves the pages where they are.
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<char*>(mapped_.data()), mapped_.size()); }

const TensorView* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status SafetensorsFile::Read(const TensorView& view, void* to) const {
  const auto changed = [&] {
    return DataLoss(fmt::format(
        "{} was changed while it is in use; restore the file, and write a new one next to it",
        path_));
  };
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0)
    return Unavailable(fmt::format("stat {}: {}", path_, std::strerror(errno)));
  if (static_cast<std::size_t>(info.st_size) != mapped_.size() ||
      info.st_mtim.tv_sec != modified_.tv_sec || info.st_mtim.tv_nsec != modified_.tv_nsec)
    return changed();
  std::size_t done = 0;
  while (done < view.data.size()) {
    const auto offset = static_cast<off_t>(view.data.data() + done - mapped_.data());
    const ssize_t count =
        ::pread(fd_.get(), static_cast<char*>(to) + done, view.data.size() - done, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unavailable(fmt::format("read {}: {}", path_, std::strerror(errno)));
    if (count == 0) return changed();
    done += static_cast<std::size_t>(count);
  }
  return OkStatus();
}

Result<std::unique_ptr<SafetensorsFolder>> SafetensorsFolder::Open(const std::string& folder) {
  auto opened = std::make_unique<SafetensorsFolder>();
  const std::string index_path = JoinPath(folder, "model.safetensors.index.json");
  Result<std::string> text = ReadFile(index_path, kMaxIndexBytes);
  if (text.status().code() == StatusCode::kNotFound) {
    const Status status = opened->AddFile(JoinPath(folder, "model.safetensors"));
    if (status.code() == StatusCode::kNotFound) {
      return NotFound(folder + " has neither model.safetensors nor model.safetensors.index.json");
    }
    BUTTRESS_RETURN_IF_ERROR(status);
    return opened;
  }
  if (!text.ok()) return text.status();
  const Result<Json> parsed = ParseBoundedJson(*text, kMaxIndexBytes);
  const Json index = parsed.ok() ? *parsed : Json();
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return DataLoss(index_path + " is not a JSON object with an object 'weight_map'");
  }
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || !IsPlainFileName(file.get<std::string>())) {
      return DataLoss(fmt::format("{}: tensor '{}' is in {}; expected a file of the folder",
                                  index_path, name, file.dump()));
    }
    BUTTRESS_RETURN_IF_ERROR(opened->AddTensor(JoinPath(folder, file.get<std::string>()), name));
  }
  return opened;
}

Status SafetensorsFolder::AddFile(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  for (const TensorView& tensor : file->tensors()) by_name_[tensor.name] = &tensor;
  files_[path] = std::move(file);
  return OkStatus();
}

Status SafetensorsFolder::AddTensor(const std::string& path, const std::string& name) {
  if (!files_.contains(path)) {
    BUTTRESS_ASSIGN_OR_RETURN(files_[path], SafetensorsFile::Open(path));
  }
  const TensorView* tensor = files_[path]->Find(name);
  if (tensor == nullptr)
    return DataLoss(fmt::format("{} lacks tensor '{}', which the index places there", path, name));
  by_name_[name] = tensor;
  return OkStatus();
}

const TensorView* SafetensorsFolder::Find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : by_name_) names.push_back(name);
  return names;
}

struct SafetensorsWriter::Header {
  std::string bytes;  // the length and the padded JSON
  std::vector<Extent> extents;
};

Result<SafetensorsWriter::Header> SafetensorsWriter::MakeHeader(
    const std::vector<Declared>& table, const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  Header header;
  std::uint64_t offset = 0;
  for (const Declared& tensor : table) {
    if (!IsPrintable(tensor.name) || json.contains(tensor.name) || tensor.name == "__metadata__") {
      return InvalidArgument(fmt::format(
          "tensor name '{}' is not printable ASCII, is reserved, or is listed twice", tensor.name));
    }
    BUTTRESS_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(tensor));
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, bytes, &end))
      return InvalidArgument("the total size of the tensors overflows 64 bits");
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    header.extents.push_back({tensor.name, bytes});
    offset = end;
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  for (std::size_t i = 0; i < 8; ++i)
    header.bytes += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  header.bytes += text;
  return header;
}

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Declared>& table,
    const std::map<std::string, std::string>& metadata, Durability durability) {
  BUTTRESS_ASSIGN_OR_RETURN(Header header, MakeHeader(table, metadata));
  BUTTRESS_ASSIGN_OR_RETURN(auto file, PartFile::Create(path));
  std::unique_ptr<SafetensorsWriter> writer(
      new SafetensorsWriter(std::move(file), std::move(header.extents), durability));
  writer->data_begin_ = header.bytes.size();
  BUTTRESS_RETURN_IF_ERROR(writer->Write(header.bytes));
  return writer;
}

Status SafetensorsWriter::Append(std::string_view bytes) {
  if (next_ == extents_.size())
    return InvalidArgument("all tensors of the table are already written");
  const Extent& extent = extents_[next_];
  if (bytes.size() != extent.bytes) {
    return InvalidArgument(fmt::format("tensor '{}' has {} bytes; its shape has {}", extent.name,
                                       bytes.size(), extent.bytes));
  }
  ++next_;
  return Write(bytes);
}

Result<std::string> SafetensorsWriter::Finish() {
  if (next_ != extents_.size()) {
    return InvalidArgument(fmt::format("{} tensors of the table are missing, the first is '{}'",
                                       extents_.size() - next_, extents_[next_].name));
  }
  BUTTRESS_RETURN_IF_ERROR(file_->Commit(durability_));
  return sha_.Finish();
}

Status SafetensorsWriter::Write(std::string_view bytes) {
  sha_.Update(bytes);
  return file_->Append(bytes);
}

}  // namespace buttress
