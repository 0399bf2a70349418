#include "learner/output/shard_writer.h"

#include <torch/types.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/transformer.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

// Keeps `read` until the last value is written.
Result<WeightFile> WriteTensors(const std::string& folder, const std::string& name,
                                const NamedTensors& tensors, std::promise<void> read) {
  const std::string path = JoinPath(folder, name);
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto writer,
      SafetensorsWriter::Create(path, DeclaredTensors(tensors), {{"format", "pt"}}));
  for (const auto& [tensor_name, tensor] : tensors) {
    at::Tensor storage;
    BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)).Annotate(tensor_name));
  }
  read.set_value();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer->Finish());
  Failpoint("checkpoint_weights");
  return WeightFile{name, std::filesystem::file_size(path), sha256};
}

}  // namespace

ShardWriter::ShardWriter(const std::string& folder, const std::string& name,
                         const NamedTensors& values, NamedTensors copied) {
  auto copy = std::make_shared<const ParameterCopy>(ParameterCopy::Start(values));
  copy_ = copy;
  std::promise<void> read;
  read_ = read.get_future();
  const auto write = [folder, name, copied = std::move(copied), started = MonotonicSeconds()](
                         std::shared_ptr<const ParameterCopy> own,
                         std::promise<void> done) -> Result<WrittenShard> {
    try {
      NamedTensors tensors = own->Wait();
      tensors.insert(tensors.end(), copied.begin(), copied.end());
      BUTTRESS_ASSIGN_OR_RETURN(WeightFile file,
                                WriteTensors(folder, name, tensors, std::move(done)));
      return WrittenShard{std::move(file), MonotonicSeconds() - started};
    } catch (const std::exception& e) {
      return StatusOf(e, "use a machine with more memory").Annotate("write a checkpoint");
    }
  };
  written_ = std::async(std::launch::async, write, std::move(copy), std::move(read));
}

void ShardWriter::BeforeUpdate() const {
  const auto copy = copy_.lock();
  if (copy == nullptr) return;
  copy->BlockStream();
  if (copy->in_place()) read_.wait();
}

bool ShardWriter::done() const {
  return written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace buttress
