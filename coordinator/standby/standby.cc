#include "coordinator/standby/standby.h"

#include <fmt/core.h>
#include <grpcpp/client_context.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/standby/file_record.h"
#include "coordinator/standby/standby_folder.h"
#include "lib/base/net/address.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(500);
constexpr milliseconds kStopPoll(100);
constexpr std::size_t kNameDigits = 8;

// One stream, until it ends.
class Following {
 public:
  // `name` tells this standby from others.
  Following(const std::string& address, const std::string& name, const Credentials& credentials,
            StandbyFolder& folder)
      : folder_(folder), stub_(v1::Coordinator::NewStub(MakeChannel(address, credentials))) {
    context_.AddMetadata(kStandbyNameKey, name);
    stream_ = stub_->Follow(&context_);
  }

  // Ends the stream, from another thread.
  void Cancel() { context_.TryCancel(); }

  // Returns why the stream has ended. `began` is set once the coordinator has sent something.
  Status Run(bool& began) {
    v1::FollowResponse record;
    Status status;
    while (status.ok() && stream_->Read(&record)) {
      if (!began) status = Begin();
      began = true;
      if (status.ok()) status = Take(record);
    }
    if (!status.ok()) context_.TryCancel();
    const Status ended = FromGrpc(stream_->Finish());
    return status.ok() ? ended : status;
  }

 private:
  Status Begin() {
    const auto& sent = context_.GetServerInitialMetadata();
    const auto run = sent.find(kFollowedRunKey);
    if (run == sent.end()) return DataLoss("the coordinator does not name its run");
    Log(kInfo, "a copy begins", {{"before", folder_.whole() ? "one is whole" : "none is whole"}});
    return folder_.Begin({run->second.data(), run->second.size()});
  }

  Status Take(const v1::FollowResponse& record) {
    const bool was_level = folder_.level();
    BUTTRESS_ASSIGN_OR_RETURN(const bool confirm, folder_.Apply(record));
    if (folder_.level() && !was_level)
      Log(kInfo, "the copy is whole; the standby is level", {{"turn", record.offset()}});
    if (!confirm) return OkStatus();
    v1::FollowRequest durable;
    durable.set_durable(record.number());
    stream_->Write(durable);  // where it fails, so does the next read
    return OkStatus();
  }

  StandbyFolder& folder_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::FollowRequest, v1::FollowResponse>> stream_;
};

// What another try does not mend.
bool IsFinal(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kFailedPrecondition ||
         status.code() == StatusCode::kResourceExhausted ||
         status.code() == StatusCode::kUnimplemented ||
         status.code() == StatusCode::kUnauthenticated ||
         status.code() == StatusCode::kPermissionDenied;
}

// Unlike a path, fit for metadata.
std::string NameOf(const std::string& folder) {
  std::error_code ignored;
  const std::string path = std::filesystem::weakly_canonical(folder, ignored).string();
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  return std::string(host) + "/" + ToHex(Sha256Of(path)).substr(0, kNameDigits);
}

}  // namespace

Status FollowCoordinator(const RunConfig& config, const Credentials& credentials) {
  BUTTRESS_ASSIGN_OR_RETURN(StandbyFolder folder, StandbyFolder::Open(config.local.out));
  const std::vector<std::string> addresses = AddressesOf(config.local.coordinator.advertise);
  if (addresses.empty()) {
    return InvalidArgument(
        "local.coordinator.advertise is empty; expected the host:port of the coordinator that "
        "this standby follows");
  }
  Log(kInfo, "standby",
      {{"follows", config.local.coordinator.advertise}, {"out", config.local.out}});
  const std::string name = NameOf(config.local.out);
  bool told = false;
  std::size_t tries = 0;
  do {
    bool began = false;
    Following following(addresses[tries++ % addresses.size()], name, credentials, folder);
    auto ended =
        std::async(std::launch::async, [&following, &began] { return following.Run(began); });
    while (ended.wait_for(kStopPoll) != std::future_status::ready) {
      if (ShutdownRequested()) following.Cancel();
    }
    const Status status = ended.get();
    if (ShutdownRequested()) break;
    if (IsFinal(status)) return status;
    if (began || !told) {
      Log(kWarn, "the coordinator cannot be followed; trying again",
          {{"error", status.ToString()}, {"copy", folder.whole() ? "whole" : "not whole"}});
    }
    told = true;
  } while (!WaitForShutdown(kRetry));
  Log(kInfo, "stopped", {{"copy", folder.whole() ? "whole" : "not whole"}});
  return OkStatus();
}

}  // namespace buttress
