#include "lib/collectives/collective.h"

#include <algorithm>

namespace buttress {
namespace {

class Completed : public Work {
 public:
  explicit Completed(Status status) : status_(std::move(status)) {}

  Status Wait(std::chrono::milliseconds) override { return status_; }

 private:
  Status status_;
};

}  // namespace

std::int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
  }
  BUTTRESS_CHECK(false, "unknown DType");
  return 0;
}

std::unique_ptr<Work> CompletedWork(Status status) {
  return std::make_unique<Completed>(std::move(status));
}

Result<std::string> BroadcastBytes(Collective& collective, std::string bytes, int root,
                                   std::chrono::milliseconds timeout) {
  auto size = static_cast<std::int64_t>(bytes.size());
  BUTTRESS_RETURN_IF_ERROR(collective.Broadcast({&size, 1, DType::kInt64}, root)->Wait(timeout));
  bytes.resize(static_cast<std::size_t>(size));
  // MPI counts elements with an int.
  constexpr std::int64_t kPart = std::int64_t{1} << 30;
  for (std::int64_t begin = 0; begin < size; begin += kPart) {
    const Buffer part{bytes.data() + begin, std::min(kPart, size - begin), DType::kUInt8};
    BUTTRESS_RETURN_IF_ERROR(collective.Broadcast(part, root)->Wait(timeout));
  }
  return bytes;
}

}  // namespace buttress
