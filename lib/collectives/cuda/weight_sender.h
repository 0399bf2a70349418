// Sends weights from the memory of a GPU to the processes of an inference server.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Rank 0 of an NCCL group whose other ranks belong to another program. They learn the id on another
// way and join while Join runs. After an error the group is aborted. Not thread-safe, except for
// Abort.
class WeightSender {
 public:
  virtual ~WeightSender() = default;

  // The bytes of the group's ncclUniqueId.
  virtual const std::string& id() const = 0;

  // Waits until every rank has joined, and sums one float32 over them, which vLLM's ranks do first.
  virtual Status Join() = 0;

  // Copies `bytes`, not empty, to the GPU and broadcasts them as uint8. Returns once every rank has
  // them.
  virtual Status Send(std::string_view bytes) = 0;

  // Ends the call in progress, and every later one, with kAborted. Thread-safe.
  virtual void Abort() = 0;
};

}  // namespace buttress
