// RPC Follow: a standby receives what the coordinator writes to its folder.
#include <grpcpp/server_context.h>

#include <string>
#include <thread>

#include "coordinator/rpc/service.h"
#include "coordinator/standby/file_record.h"
#include "coordinator/standby/mirror.h"
#include "lib/base/thread/sync.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {
namespace {

using FollowReactor = grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>;

constexpr std::chrono::milliseconds kFollowTick(100);

// A thread takes the records, because the next one may be long in coming.
class FollowCall final : public FollowReactor {
 public:
  FollowCall(grpc::CallbackServerContext& context, Mirror& mirror, std::uint64_t id)
      : context_(context), mirror_(mirror), id_(id) {
    StartRead(&request_);
    thread_ = std::thread([this] { Run(); });
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Close();
    mirror_.Confirm(id_, request_.durable());
    StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    closed_ = closed_ || !ok;
    changed_.NotifyAll();
  }

  void OnCancel() override { Close(); }

  // The thread's last act is to finish the call, which may bring gRPC here on that very thread.
  void OnDone() override {
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
    delete this;
  }

 private:
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

  void Run() {
    auto next = Mirror::Next::kNothing;
    while (next != Mirror::Next::kReplaced && !closed()) {
      next = mirror_.Take(id_, kFollowTick, record_);
      if (next == Mirror::Next::kRecord) Send();
    }
    mirror_.Detach(id_);
    Finish(ToGrpc(Unavailable("the coordinator no longer serves this standby; connect again")));
  }

  // Of a standby that stands still nothing is written until its connection is found dead
  // (channel.h), or until it has connected again.
  void Send() {
    {
      MutexLock lock(mutex_);
      writing_ = true;
    }
    StartWrite(&record_);
    while (!Written()) {
      if (!mirror_.attached(id_)) context_.TryCancel();
    }
  }

  // Waits a little.
  bool Written() {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, kFollowTick, [this]() REQUIRES(mutex_) { return !writing_; });
  }

  bool closed() {
    MutexLock lock(mutex_);
    return closed_;
  }

  grpc::CallbackServerContext& context_;
  Mirror& mirror_;
  const std::uint64_t id_;
  v1::FollowRequest request_;
  v1::FollowResponse record_;
  Mutex mutex_;
  CondVar changed_;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class RefusedFollow final : public FollowReactor {
 public:
  explicit RefusedFollow(const Status& why) { Finish(ToGrpc(why)); }

  void OnDone() override { delete this; }
};

std::string NameOf(const grpc::CallbackServerContext& context) {
  const auto& sent = context.client_metadata();
  const auto name = sent.find(kStandbyNameKey);
  return name == sent.end() ? "" : std::string(name->second.data(), name->second.size());
}

}  // namespace

FollowReactor* CoordinatorService::Follow(grpc::CallbackServerContext* context) {
  if (mirror_ == nullptr) {
    return new RefusedFollow(FailedPrecondition(
        "this coordinator has no standby; set local.coordinator.standby to synchronous or "
        "asynchronous and start it again"));
  }
  const std::uint64_t id = mirror_->Attach(NameOf(*context));
  if (id == 0) {
    return new RefusedFollow(Unavailable(
        "another standby follows this coordinator, which has one at a time; stop that one first"));
  }
  context->AddInitialMetadata(kFollowedRunKey, mirror_->run_id());
  return new FollowCall(*context, *mirror_, id);
}

}  // namespace buttress
