// The safetensors format: 8 bytes header length (little endian), a JSON header, raw tensor bytes.
// Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/weights/part_file.h"

namespace buttress {

// One tensor of a file; `data` points into the mapped file.
struct TensorView {
  std::string name;
  std::string dtype;  // F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  std::vector<std::int64_t> shape;
  std::string_view data;
};

// Bytes of one element; 0 for a dtype that is not known.
std::int64_t SafetensorsElementSize(std::string_view dtype);

// A memory-mapped safetensors file; thread-safe. Every offset, size, overlap and shape is checked
// against the file at Open.
class SafetensorsFile {
 public:
  // kDataLoss names the file, the tensor and what is wrong.
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  virtual ~SafetensorsFile() = default;
  virtual const std::vector<TensorView>& tensors() const = 0;
  // Nothing if there is no such tensor.
  virtual const TensorView* Find(std::string_view name) const = 0;
};

// All tensors of a Hugging Face folder: model.safetensors, or the shards of
// model.safetensors.index.json.
class SafetensorsFolder {
 public:
  static Result<std::unique_ptr<SafetensorsFolder>> Open(const std::string& folder);
  virtual ~SafetensorsFolder() = default;
  virtual const TensorView* Find(std::string_view name) const = 0;
  virtual std::vector<std::string> names() const = 0;
};

// Writes a file tensor by tensor, so that no whole model is held: declare the table first, then the
// bytes in the same order.
class SafetensorsWriter {
 public:
  struct Declared {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
  };

  // Writes the header to `path` + ".part". kInvalidArgument for a table that is not one (names
  // twice, unknown dtypes, negative extents).
  static Result<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<Declared>& table,
      const std::map<std::string, std::string>& metadata,
      Durability durability = Durability::kFsync);
  virtual ~SafetensorsWriter() = default;

  // Bytes of the next tensor of the table; a wrong size is kInvalidArgument.
  virtual Status Append(std::string_view bytes) = 0;

  // fsync (kFsync), rename. Returns the SHA-256 (32 bytes) of the file, computed while writing.
  virtual Result<std::string> Finish() = 0;

  // First byte of the tensor data in the file.
  virtual std::uint64_t data_begin() const = 0;
};

}  // namespace buttress
