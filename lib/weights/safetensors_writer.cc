#include <nlohmann/json.hpp>

#include "lib/base/digest.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAlignment =
    8;  // of the data behind the header, as the reference implementation pads it

struct Extent {
  std::string name;
  std::uint64_t bytes = 0;
};

Result<std::uint64_t> BytesOf(const SafetensorsWriter::Declared& tensor) {
  const std::int64_t element = SafetensorsElementSize(tensor.dtype);
  if (element == 0)
    return InvalidArgument("tensor '" + tensor.name + "': dtype '" + tensor.dtype +
                           "' is not known");
  std::uint64_t bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return InvalidArgument("tensor '" + tensor.name + "': extent " + std::to_string(extent) +
                             " is negative or too large");
    }
  }
  return bytes;
}

bool IsPrintable(std::string_view name) {
  for (const char c : name) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return !name.empty();
}

struct Header {
  std::string bytes;  // length and JSON, padded
  std::vector<Extent> extents;
};

Result<Header> MakeHeader(const std::vector<SafetensorsWriter::Declared>& table,
                          const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  Header header;
  std::uint64_t offset = 0;
  for (const auto& tensor : table) {
    if (!IsPrintable(tensor.name) || json.contains(tensor.name) || tensor.name == "__metadata__") {
      return InvalidArgument("tensor '" + tensor.name +
                             "': names are printable ASCII and stand once in the table");
    }
    BUTTRESS_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(tensor));
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, bytes, &end))
      return InvalidArgument("the table's bytes overflow");
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

class PartWriter : public SafetensorsWriter {
 public:
  PartWriter(std::unique_ptr<PartFile> file, std::vector<Extent> extents, Durability durability)
      : file_(std::move(file)), extents_(std::move(extents)), durability_(durability) {}

  Status WriteHeader(std::string_view bytes) {
    data_begin_ = bytes.size();
    return Write(bytes);
  }

  Status Append(std::string_view bytes) override {
    if (next_ == extents_.size())
      return InvalidArgument("all tensors of the table are written already");
    const Extent& extent = extents_[next_];
    if (bytes.size() != extent.bytes) {
      return InvalidArgument("tensor '" + extent.name + "' has " + std::to_string(bytes.size()) +
                             " bytes; its shape says " + std::to_string(extent.bytes));
    }
    ++next_;
    return Write(bytes);
  }

  Result<std::string> Finish() override {
    if (next_ != extents_.size()) {
      return InvalidArgument("tensor '" + extents_[next_].name + "' and " +
                             std::to_string(extents_.size() - next_ - 1) +
                             " more of the table were not written");
    }
    BUTTRESS_RETURN_IF_ERROR(file_->Commit(durability_));
    return sha_.Finish();
  }

  std::uint64_t data_begin() const override { return data_begin_; }

 private:
  Status Write(std::string_view bytes) {
    sha_.Update(bytes);
    return file_->Append(bytes);
  }

  std::unique_ptr<PartFile> file_;
  std::vector<Extent> extents_;
  Durability durability_;
  Sha256 sha_;
  std::size_t next_ = 0;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Declared>& table,
    const std::map<std::string, std::string>& metadata, Durability durability) {
  BUTTRESS_ASSIGN_OR_RETURN(Header header, MakeHeader(table, metadata));
  BUTTRESS_ASSIGN_OR_RETURN(auto file, PartFile::Create(path));
  auto writer =
      std::make_unique<PartWriter>(std::move(file), std::move(header.extents), durability);
  BUTTRESS_RETURN_IF_ERROR(writer->WriteHeader(header.bytes));
  return std::unique_ptr<SafetensorsWriter>(std::move(writer));
}

}  // namespace buttress
