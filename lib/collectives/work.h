// A collective that is over before it began: with one rank, or because it was refused.
#pragma once

#include <memory>
#include <utility>

#include "lib/collectives/collective.h"

namespace buttress {

class FinishedWork : public Work {
 public:
  explicit FinishedWork(Status status) : status_(std::move(status)) {}

  Status Wait(std::chrono::milliseconds) override { return status_; }

 private:
  Status status_;
};

inline std::unique_ptr<Work> Finished(Status status) {
  return std::make_unique<FinishedWork>(std::move(status));
}

}  // namespace buttress
