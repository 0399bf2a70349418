// The files of a model's weights: their division by size, as Hugging Face divides them, how they
// are written, and how the digests of those that other processes write arrive. Without torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/safetensors.h"

namespace buttress {

inline constexpr char kWeightsName[] = "model.safetensors";
inline constexpr char kWeightsIndexName[] = "model.safetensors.index.json";

// The bytes of a tensor. REQUIRES: its dtype is known and its extents are not negative.
std::uint64_t DataBytes(const SafetensorsWriter::Declared& tensor);

struct PlannedFile {
  std::string name;
  std::vector<SafetensorsWriter::Declared> tensors;

  // The sum over the tensors, without the header of the file.
  std::uint64_t data_bytes() const;
};

// The bytes of tensors that a file holds at most, unless one tensor is larger: 1 GiB, or what a
// test writes into BUTTRESS_WEIGHT_FILE_BYTES.
std::uint64_t WeightFileLimit();

// Divides the tensors in their order: a file ends where the next tensor would exceed `limit` bytes.
// One file is model.safetensors, several are model-00001-of-0000N.safetensors and so on. Every
// process that knows the table gets the same files.
std::vector<PlannedFile> DivideWeights(const std::vector<SafetensorsWriter::Declared>& table,
                                       std::uint64_t limit = WeightFileLimit());

// Returns the text of model.safetensors.index.json, or nothing for one file, which needs none.
std::string WeightsIndexText(const std::vector<PlannedFile>& files);

// Returns the bytes of a tensor; the view stays valid. Called by several threads.
using BytesOfTensor = std::function<std::string_view(const std::string& name)>;

// Writes and hashes `files`, several at once, without a sync. kInvalidArgument if a tensor has
// another size than its shape.
Result<std::vector<WeightFile>> WriteWeightFiles(const std::string& folder,
                                                 const std::vector<PlannedFile>& files,
                                                 const BytesOfTensor& bytes_of);

// What another process gives of a file <folder>/<name> that it writes, by way of the folder. The
// reader expects it first: where the folder is on a network file system, a name that was looked for
// in vain would stay missing for the seconds of a cache, and a file that exists does not.
Status ExpectWritten(const std::string& folder, const std::string& name);
Status GiveWritten(const std::string& folder, const WeightFile& file);

// Waits for it, and removes the note. kDeadlineExceeded after `timeout`; kCancelled once
// `given_up` returns true.
Result<WeightFile> AwaitWritten(const std::string& folder, const std::string& name,
                                std::chrono::milliseconds timeout,
                                const std::function<bool()>& given_up);

}  // namespace buttress
