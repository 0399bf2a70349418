// The back end for one rank: a sum is the rank's own buffer, and the other operations are copies.
#include <fmt/core.h>

#include <cstring>

#include "lib/collectives/collective.h"

namespace buttress {
namespace {

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

std::unique_ptr<Collective> MakeLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace buttress
