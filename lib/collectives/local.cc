// One rank: a sum is the rank's own buffer, the rest is a copy.
#include <cstring>

#include "lib/collectives/work.h"

namespace buttress {
namespace {

Status Copy(const Buffer& in, const Buffer& out) {
  if (in.count != out.count || in.dtype != out.dtype)
    return InvalidArgument("local collective: in and out differ in count or dtype");
  if (in.device != DeviceKind::kCpu || out.device != DeviceKind::kCpu) {
    return InvalidArgument(
        "local collective: copies CPU buffers only; use one buffer for in and out on a GPU");
  }
  std::memmove(out.data, in.data, static_cast<std::size_t>(in.count * SizeOf(in.dtype)));
  return OkStatus();
}

class LocalCollective : public Collective {
 public:
  int rank() const override { return 0; }

  int size() const override { return 1; }

  std::unique_ptr<Work> AllReduceSum(Buffer) override { return Finished(OkStatus()); }

  std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) override {
    return Finished(Copy(in, out));
  }

  std::unique_ptr<Work> AllGather(Buffer in, Buffer out) override {
    return Finished(Copy(in, out));
  }

  std::unique_ptr<Work> Broadcast(Buffer, int root) override {
    if (root == 0) return Finished(OkStatus());
    return Finished(
        InvalidArgument("broadcast from rank " + std::to_string(root) + " of a group of one"));
  }

  Status Barrier() override { return OkStatus(); }

  Result<std::unique_ptr<Collective>> Split(int, int) override { return MakeLocalCollective(); }

  void Abort() override {}
};

}  // namespace

std::unique_ptr<Collective> MakeLocalCollective() { return std::make_unique<LocalCollective>(); }

}  // namespace buttress
