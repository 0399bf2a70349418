#include "lib/collectives/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace buttress {
namespace {

class Completed : public Work {
 public:
  explicit Completed(Status status) : status_(std::move(status)) {}

  Status Wait(std::chrono::milliseconds) override { return status_; }

 private:
  Status status_;
};

Status Copy(const Buffer& in, const Buffer& out) {
  if (in.count != out.count || in.dtype != out.dtype)
    return InvalidArgument("collective local: in and out differ in count or dtype");
  if (in.device != DeviceKind::kCpu || out.device != DeviceKind::kCpu) {
    return InvalidArgument(
        "collective local: buffers must be in CPU memory; pass the same GPU buffer for in and out");
  }
  std::memmove(out.data, in.data, static_cast<std::size_t>(in.count * SizeOf(in.dtype)));
  return OkStatus();
}

// The back end for one rank: a sum is the rank's own buffer, and the other operations are copies.
class LocalCollective : public Collective {
 public:
  int rank() const override { return 0; }

  int size() const override { return 1; }

  std::unique_ptr<Work> AllReduceSum(Buffer) override { return CompletedWork(OkStatus()); }

  std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) override {
    return CompletedWork(Copy(in, out));
  }

  std::unique_ptr<Work> AllGather(Buffer in, Buffer out) override {
    return CompletedWork(Copy(in, out));
  }

  std::unique_ptr<Work> AllToAll(Buffer in, const std::vector<std::int64_t>& sent, Buffer out,
                                 const std::vector<std::int64_t>& received) override {
    Status status = CheckExchange(in, sent, out, received, 1);
    return CompletedWork(status.ok() ? Copy(in, out) : std::move(status));
  }

  std::unique_ptr<Work> Broadcast(Buffer, int root) override {
    if (root == 0) return CompletedWork(OkStatus());
    return CompletedWork(
        InvalidArgument(fmt::format("broadcast from rank {} of a group of one", root)));
  }

  Status Barrier() override { return OkStatus(); }

  Result<std::unique_ptr<Collective>> Split(int, int) override { return MakeLocalCollective(); }

  void Abort() override {}
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

Status CheckExchange(const Buffer& in, const std::vector<std::int64_t>& sent, const Buffer& out,
                     const std::vector<std::int64_t>& received, int size) {
  const auto fits = [size](const Buffer& buffer, const std::vector<std::int64_t>& counts) {
    return counts.size() == static_cast<std::size_t>(size) &&
           std::ranges::all_of(counts, [](std::int64_t count) { return count >= 0; }) &&
           std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == buffer.count;
  };
  if (fits(in, sent) && fits(out, received) && in.dtype == out.dtype) return OkStatus();
  return InvalidArgument(
      "all-to-all: the counts by rank must sum to those of the buffers, which are of one dtype");
}

std::unique_ptr<Work> Collective::AllToAll(Buffer in, Buffer out) {
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), in.count / size());
  return AllToAll(in, counts, out, counts);
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

std::unique_ptr<Collective> MakeLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace buttress
