#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text/digest.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

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
