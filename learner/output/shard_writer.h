// Writes the tensors of one rank of a checkpoint, while the next step is trained. Torch.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "learner/output/weight_sync.h"
#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"

namespace buttress {

struct WrittenShard {
  WeightFile file;
  double seconds = 0;  // from the start until the file was durable
};

// Owns a thread that copies, hashes, writes and syncs one file. One other thread calls the methods.
class ShardWriter {
 public:
  // Starts to read `values` (ParameterCopy) and to write them, and `copied`, which are in host
  // memory, to <folder>/<name>. Throws what LibTorch throws.
  ShardWriter(const std::string& folder, const std::string& name, const NamedTensors& values,
              NamedTensors copied);

  // REQUIRES: it is called before `values` change. On a device, work that is enqueued later waits
  // there for the copy; the host does not wait. On the CPU, waits until they are written.
  void BeforeUpdate() const;

  // Whether Finish returns at once.
  bool done() const;

  // Waits until the file is durable. Called once.
  Result<WrittenShard> Finish() { return written_.get(); }

 private:
  std::weak_ptr<const ParameterCopy> copy_;  // expired once it is written
  std::future<void> read_;
  std::future<Result<WrittenShard>> written_;  // its destructor waits for the thread
};

}  // namespace buttress
