// Reads and writes the safetensors format of Hugging Face: the length of the header (8 bytes,
// little endian), a JSON header, and the raw bytes of the tensors. Without torch.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"
#include "lib/weights/part_file.h"

namespace buttress {

class SafetensorsFile;

// One tensor of a file. `data` points into the mapped file and lives as long as it; a file that is
// truncated while it is mapped ends a process that reads there (SafetensorsFile::Read does not).
struct TensorView {
  std::string name;
  std::string dtype;  // F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  std::vector<std::int64_t> shape;
  std::string_view data;
  const SafetensorsFile* file = nullptr;
};

// Returns the bytes of one element, or 0 for an unknown dtype.
std::int64_t SafetensorsElementSize(std::string_view dtype);

// Takes the whole pages of `data`, which is part of a mapped file, out of the memory of this
// process. Reading them again is correct.
void ForgetPages(std::string_view data);

// An open, memory-mapped safetensors file. Thread-safe.
class SafetensorsFile {
 public:
  // Checks every offset, size, overlap and shape against the file. kDataLoss names the file, the
  // tensor and the violation.
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  // The tensors in the order of their data.
  const std::vector<TensorView>& tensors() const { return tensors_; }

  // Returns null if there is no such tensor.
  const TensorView* Find(std::string_view name) const;

  // Reads the bytes of `view`, which is of this file, to `to`, not through the mapping. A file that
  // was replaced or removed is read as it was opened; kDataLoss if it was changed in place.
  Status Read(const TensorView& view, void* to) const;

 private:
  SafetensorsFile(std::string path, OwnedFd fd, std::string_view mapped, timespec modified)
      : path_(std::move(path)), fd_(std::move(fd)), mapped_(mapped), modified_(modified) {}

  static Result<std::unique_ptr<SafetensorsFile>> Map(const std::string& path);

  const std::string path_;
  const OwnedFd fd_;
  const std::string_view mapped_;  // the whole file
  const timespec modified_;        // when it was written last, as of Open
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> index_;  // into tensors_, by name
};

// The tensors of a Hugging Face folder: those of model.safetensors, or of the shards that
// model.safetensors.index.json lists. Thread-safe.
class SafetensorsFolder {
 public:
  // kNotFound if the folder has neither file; kDataLoss as in SafetensorsFile::Open, or if a shard
  // lacks a tensor of the index.
  static Result<std::unique_ptr<SafetensorsFolder>> Open(const std::string& folder);

  // Returns null if there is no such tensor.
  const TensorView* Find(std::string_view name) const;

  // The names of the tensors, sorted.
  std::vector<std::string> names() const;

 private:
  Status AddFile(const std::string& path);
  Status AddTensor(const std::string& path, const std::string& name);

  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;  // by path
  std::map<std::string, const TensorView*> by_name_;
};

// Writes a file one tensor at a time, so that the model is never in memory as a whole: Create with
// the table of all tensors, Append for each in the same order, Finish. Not thread-safe.
class SafetensorsWriter {
 public:
  struct Declared {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
  };

  // Writes the header to `path` + ".part". kInvalidArgument if the table has a name twice, an
  // unknown dtype or a negative extent.
  static Result<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<Declared>& table,
      const std::map<std::string, std::string>& metadata,
      Durability durability = Durability::kFsync);

  // Writes the bytes of the next tensor. kInvalidArgument if their number does not match the shape,
  // or after the last tensor.
  Status Append(std::string_view bytes);

  // Renames the part to `path`. Returns the SHA-256 (32 bytes) of the file. kInvalidArgument if
  // tensors are missing.
  Result<std::string> Finish();

  // The offset of the first tensor in the file.
  std::uint64_t data_begin() const { return data_begin_; }

 private:
  struct Extent {
    std::string name;
    std::uint64_t bytes = 0;
  };
  struct Header;

  SafetensorsWriter(std::unique_ptr<PartFile> file, std::vector<Extent> extents,
                    Durability durability)
      : file_(std::move(file)), extents_(std::move(extents)), durability_(durability) {}

  static Result<Header> MakeHeader(const std::vector<Declared>& table,
                                   const std::map<std::string, std::string>& metadata);
  Status Write(std::string_view bytes);

  std::unique_ptr<PartFile> file_;
  std::vector<Extent> extents_;  // of the table
  Durability durability_;
  Sha256 sha_;
  std::size_t next_ = 0;  // index of the next tensor
  std::uint64_t data_begin_ = 0;
};

}  // namespace buttress
