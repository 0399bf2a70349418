#include "lib/rpc/coordinator_client.h"

#include <fmt/core.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/net/address.h"
#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/base/thread/sync.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/fetched_groups.h"
#include "lib/rpc/grpc_status.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

using Stub = v1::Coordinator::Stub;
using std::chrono::milliseconds;

constexpr std::int64_t kUnaryMs = 10000;
constexpr std::int64_t kFetchMs = 300000;
constexpr std::int64_t kConnectTryMs = 2000;
constexpr std::int64_t kLongestBackoffMs = 1000;
// Roughly half a second: a coordinator that is just starting is no warning.
constexpr int kToldAtAttempt = 4;
constexpr std::int64_t kMaxAddressBytes = 1024;
constexpr milliseconds kShutdownPoll(100);

// A coordinator that ends cancels the calls that it has not answered; this process cancels a call
// only after it was asked to stop, when nothing is tried again.
bool IsTransient(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kCancelled;
}

// Waits for an asynchronous call. Cancels a long poll when the process is asked to stop.
class PendingCall {
 public:
  void Finish(const grpc::Status& status) {
    MutexLock lock(mutex_);
    status_ = FromGrpc(status);
    done_ = true;
    changed_.NotifyAll();
  }

  Status Wait(grpc::ClientContext& context, bool long_poll) {
    MutexLock lock(mutex_);
    bool cancelled = false;
    while (!changed_.WaitFor(mutex_, kShutdownPoll, [this]() REQUIRES(mutex_) { return done_; })) {
      if (!long_poll || cancelled || !ShutdownRequested()) continue;
      context.TryCancel();
      cancelled = true;
    }
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace

std::string AnsweredStart::Get() const {
  MutexLock lock(mutex_);
  return start_;
}

bool AnsweredStart::Accept(const std::string& start) {
  MutexLock lock(mutex_);
  if (start == start_) return true;
  if (before_.contains(start)) return false;
  before_.insert(std::exchange(start_, start));
  return true;
}

// The channel and the retry loop.
class CoordinatorClient::Connection {
 public:
  using Attempt = std::function<Status(const std::shared_ptr<Stub>& stub)>;

  explicit Connection(CoordinatorClientOptions options) : options_(std::move(options)) {}

  Status Call(std::string_view name, const Attempt& attempt) {
    std::int64_t give_up_at = RealClock().MonotonicMs() + options_.give_up_after_ms;
    Backoff backoff({.max_ms = kLongestBackoffMs}, static_cast<std::uint64_t>(give_up_at));
    while (true) {
      const Status status = TryOnce(attempt);
      if (status.ok()) return status;
      const Status named = status.Annotate(name);
      if (!IsTransient(status) || ShutdownRequested() || CheckpointRequested()) return named;
      const std::int64_t wait_ms = backoff.NextMs();
      // A coordinator that is paused continues by itself, however long that takes.
      if (IsPaused(status)) give_up_at = RealClock().MonotonicMs() + options_.give_up_after_ms;
      if (RealClock().MonotonicMs() + wait_ms >= give_up_at) {
        return named.Annotate("gave up after " + std::to_string(options_.give_up_after_ms) + " ms");
      }
      if (backoff.attempts() == kToldAtAttempt) {
        Log(kWarn, "coordinator call failed; retrying", {{"error", named.ToString()}});
      }
      if (WaitForShutdown(milliseconds(wait_ms))) return named;
    }
  }

  template <class Request, class Response, class Async>
  Result<Response> Unary(std::string_view name,
                         void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                               std::function<void(grpc::Status)>),
                         const Request& request, std::int64_t hold_ms = 0) {
    Response response;
    BUTTRESS_RETURN_IF_ERROR(Call(name, [&](const std::shared_ptr<Stub>& stub) {
      grpc::ClientContext context;
      Prepare(context, kUnaryMs + hold_ms);
      PendingCall pending;
      response.Clear();
      (stub->async()->*method)(&context, &request, &response,
                               [&pending](const grpc::Status& s) { pending.Finish(s); });
      return Answered(context, pending.Wait(context, hold_ms > 0));
    }));
    return response;
  }

  Result<v1::SubmitResult> Submit(const v1::SubmitHeader& header, const std::string& bytes) {
    v1::SubmitGroupsResponse response;
    BUTTRESS_RETURN_IF_ERROR(Call("SubmitGroups", [&](const std::shared_ptr<Stub>& stub) {
      grpc::ClientContext context;
      Prepare(context, milliseconds(kGroupTime).count());
      context.set_initial_metadata_corked(true);  // gRPC sends it with the first message
      const auto call = stub->SubmitGroups(&context, &response);
      v1::SubmitGroupsRequest part;
      *part.mutable_header() = header;
      bool last = false;
      for (std::size_t sent = 0; !last; sent += kChunkBytes) {
        last = bytes.size() - sent <= kChunkBytes;
        part.set_data(bytes.substr(sent, kChunkBytes));
        grpc::WriteOptions options;
        if (last) options.set_last_message();
        if (!call->Write(part, options)) break;  // Finish says why
        part.clear_header();
      }
      return Answered(context, FromGrpc(call->Finish()));
    }));
    return response.result();
  }

  void Prepare(grpc::ClientContext& context, std::int64_t deadline_ms) {
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(deadline_ms));
    if (const std::string start = options_.answered->Get(); !start.empty())
      context.AddMetadata(kStartKey, start);
  }

  // Returns `status`, or kUnavailable if a coordinator has answered that is no longer the run's.
  Status Answered(const grpc::ClientContext& context, const Status& status) {
    if (!status.ok()) return status;
    const auto& sent = context.GetServerInitialMetadata();
    const auto start = sent.find(kStartKey);
    if (start == sent.end() ||
        options_.answered->Accept({start->second.data(), start->second.size()}))
      return status;
    return Unavailable("a coordinator has answered that another one has replaced: stop it");
  }

 private:
  struct Connected {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<Stub> stub;
  };

  // Does not use wait_for_ready: only a failed attempt makes the client read the address again,
  // which it must if the coordinator restarted on another port.
  Status TryOnce(const Attempt& attempt) {
    BUTTRESS_ASSIGN_OR_RETURN(const Connected connected, Connect());
    Status status = attempt(connected.stub);
    // One that does not answer may be behind a connection that still lives.
    if (IsTransient(status) && !IsPaused(status)) Leave(connected);
    return status;
  }

  // The next attempt goes to the next address, if there are several.
  void Leave(const Connected& connected) {
    MutexLock lock(mutex_);
    if (!has_others_ || connected.channel != current_.channel) return;
    ++tried_;
    current_ = {};
  }

  Result<Connected> Connect() {
    Connected connected;
    {
      MutexLock lock(mutex_);
      if (!current_.channel || current_.channel->GetState(false) != GRPC_CHANNEL_READY) {
        BUTTRESS_ASSIGN_OR_RETURN(const std::string listed, Listed());
        const std::vector<std::string> addresses = AddressesOf(listed);
        has_others_ = addresses.size() > 1;
        const std::string address = addresses.empty() ? "" : addresses[tried_ % addresses.size()];
        if (address != current_.address) {
          auto channel = MakeChannel(address, options_.credentials);
          current_ = {address, channel, v1::Coordinator::NewStub(channel)};
        }
      }
      connected = current_;
    }
    if (!Reached(*connected.channel)) {
      Leave(connected);
      return Unavailable("no coordinator answers at " + connected.address +
                         (options_.credentials.empty() ? " without TLS" : " by TLS") +
                         "; if one runs there, local.security must be the same on both sides");
    }
    return connected;
  }

  // Returns false as soon as the connection is refused, because the address file may name another
  // port by now.
  static bool Reached(grpc::Channel& channel) {
    const auto deadline = std::chrono::system_clock::now() + milliseconds(kConnectTryMs);
    while (true) {
      const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) return true;
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || !channel.WaitForStateChange(state, deadline)) {
        return false;
      }
    }
  }

  Result<std::string> Listed() const {
    if (!options_.address.empty()) return options_.address;
    auto text = ReadFile(options_.address_file, kMaxAddressBytes);
    if (!text.ok()) {
      return Unavailable("the coordinator has not started: " + text.status().message() +
                         "; start it with the same local.out, or set local.coordinator.advertise");
    }
    return text->substr(0, text->find_first_of(" \r\n"));
  }

  const CoordinatorClientOptions options_;
  Mutex mutex_;
  Connected current_ GUARDED_BY(mutex_);
  std::size_t tried_ GUARDED_BY(mutex_) = 0;  // addresses that did not answer
  bool has_others_ GUARDED_BY(mutex_) = false;
};

CoordinatorClientOptions CoordinatorClientOptionsFrom(const LocalSettings& local,
                                                      const Credentials& credentials) {
  CoordinatorClientOptions options;
  options.address = local.coordinator.advertise;
  options.address_file = JoinPath(local.out, "coordinator.address");
  options.credentials = credentials;
  return options;
}

EncodedGroup EncodedGroup::Of(const v1::Group& group) {
  EncodedGroup encoded;
  encoded.bytes = group.SerializeAsString();
  encoded.sha256 = Sha256Of(encoded.bytes);
  return encoded;
}

CoordinatorClient::CoordinatorClient(CoordinatorClientOptions options)
    : connection_(std::make_unique<Connection>(std::move(options))) {}

CoordinatorClient::~CoordinatorClient() = default;

using Async = v1::Coordinator::Stub::async_interface;

Result<v1::RegisterWorkerResponse> CoordinatorClient::RegisterWorker(
    const v1::RegisterWorkerRequest& request) {
  return connection_->Unary("RegisterWorker", &Async::RegisterWorker, request);
}

Result<v1::ExchangeResponse> CoordinatorClient::Exchange(const v1::ExchangeRequest& request) {
  return connection_->Unary("Exchange", &Async::Exchange, request, request.wait_ms());
}

Result<v1::RegisterLearnerResponse> CoordinatorClient::RegisterLearner(
    const v1::RegisterLearnerRequest& request) {
  return connection_->Unary("RegisterLearner", &Async::RegisterLearner, request);
}

Result<v1::PlanBatchResponse> CoordinatorClient::PlanBatch(const v1::PlanBatchRequest& request) {
  return connection_->Unary("PlanBatch", &Async::PlanBatch, request, request.wait_ms());
}

Status CoordinatorClient::Commit(const v1::CommitRequest& request) {
  return connection_->Unary("Commit", &Async::Commit, request).status();
}

Status CoordinatorClient::AnnounceWeights(const v1::AnnounceWeightsRequest& request) {
  return connection_->Unary("AnnounceWeights", &Async::AnnounceWeights, request).status();
}

Status CoordinatorClient::Checkpointed(const v1::CheckpointedRequest& request) {
  return connection_->Unary("Checkpointed", &Async::Checkpointed, request).status();
}

Result<v1::GetRunStatusResponse> CoordinatorClient::GetRunStatus() {
  return connection_->Unary("GetRunStatus", &Async::GetRunStatus, v1::GetRunStatusRequest());
}

Result<v1::OrderWorkerResponse> CoordinatorClient::OrderWorker(
    const v1::OrderWorkerRequest& request) {
  return connection_->Unary("OrderWorker", &Async::OrderWorker, request);
}

Result<v1::OrderMaxAgeResponse> CoordinatorClient::OrderMaxAge(
    const v1::OrderMaxAgeRequest& request) {
  return connection_->Unary("OrderMaxAge", &Async::OrderMaxAge, request);
}

Result<v1::StopRunResponse> CoordinatorClient::StopRun(const v1::StopRunRequest& request) {
  return connection_->Unary("StopRun", &Async::StopRun, request, request.wait_ms());
}

Result<v1::SubmitResult> CoordinatorClient::SubmitGroup(const v1::RegisterWorkerRequest& self,
                                                        const v1::LeaseRef& lease,
                                                        const EncodedGroup& group) {
  v1::SubmitHeader header;
  header.set_run_id(self.run_id());
  header.set_worker_id(self.worker_id());
  header.set_incarnation(self.incarnation());
  header.set_worker_secret(self.worker_secret());
  *header.mutable_lease() = lease;
  header.set_content_sha256(group.sha256);
  header.set_total_bytes(group.bytes.size());
  return connection_->Submit(header, group.bytes);
}

Result<std::vector<v1::Group>> CoordinatorClient::FetchGroups(
    const v1::FetchGroupsRequest& request) {
  FetchedGroups groups(request);
  std::vector<v1::Group> fetched;
  const auto attempt = [&](const std::shared_ptr<Stub>& stub) -> Status {
    groups.Clear();
    grpc::ClientContext context;
    connection_->Prepare(context, kFetchMs);
    const auto stream = stub->FetchGroups(&context, request);
    v1::FetchGroupsResponse part;
    Status status;
    while (status.ok() && stream->Read(&part)) status = groups.Add(part);
    if (!status.ok()) context.TryCancel();
    const Status finished = connection_->Answered(context, FromGrpc(stream->Finish()));
    BUTTRESS_RETURN_IF_ERROR(status);
    BUTTRESS_RETURN_IF_ERROR(finished);
    BUTTRESS_ASSIGN_OR_RETURN(fetched, groups.Take());
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(connection_->Call("FetchGroups", attempt));
  return fetched;
}

}  // namespace buttress
