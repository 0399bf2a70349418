// RPCs of rollout workers: RegisterWorker and Exchange. submit_groups.cc has SubmitGroups.
#include <fmt/core.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>

#include "coordinator/as_leased.h"
#include "coordinator/service.h"
#include "lib/base/log.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxNameBytes = 256;
// More than any worker has. A request beyond one of them is not parsed, which would cost more than
// all else that the coordinator does.
constexpr std::size_t kMaxExchangeBytes = std::size_t{512} << 10;
constexpr int kMaxExchangeFields = 1 << 16;
// Leases of one response, so that it fits in a message. One lease always does.
constexpr std::size_t kLeaseBytes = std::size_t{4} << 20;

bool IsPlainName(const std::string& text) {
  return text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) > ' '; });
}

Result<WorkerExchange> ExchangeFrom(const v1::ExchangeRequest& request) {
  WorkerExchange exchange;
  exchange.worker_id = request.worker_id();
  exchange.incarnation = request.incarnation();
  for (const v1::LeaseRef& ref : request.held()) exchange.held.push_back(FromProto(ref));
  for (const v1::LeaseRef& ref : request.finished()) exchange.finished.push_back(FromProto(ref));
  for (const v1::ReturnedLease& returned : request.returned()) {
    BUTTRESS_ASSIGN_OR_RETURN(exchange.returned.emplace_back(), FromProto(returned));
  }
  // A worker that drains would get the groups that it returns again, before those who wait.
  const bool drains =
      request.draining() || std::ranges::any_of(exchange.returned, [](const ReturnedLease& lease) {
        return lease.reason == ReturnReason::kDraining;
      });
  exchange.capacity = drains ? 0 : request.capacity();
  BUTTRESS_ASSIGN_OR_RETURN(exchange.loaded_version, FromProto(request.loaded_version()));
  return exchange;
}

// Returns the lease with its prompt, and remembers what a submission must repeat.
Result<Lease> WithPrompt(Turn& turn, const GrantedLease& granted) {
  BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, turn.prompts.Read(granted.prompt));
  Lease lease;
  lease.ref = granted.ref;
  lease.prompt_id = std::move(prompt.id);
  lease.source = std::move(prompt.source);
  lease.prompt_token_ids = std::move(prompt.token_ids);
  lease.answer = std::move(prompt.answer);
  lease.extra_json = std::move(prompt.extra_json);
  lease.completions = granted.prompt.completions;
  lease.sampling = SamplingOf(turn.terms, granted.prompt);
  turn.leased_prompts[granted.ref.group_id] = PromptDigest(lease.prompt_token_ids);
  lease.min_version = granted.min_version;
  lease.exact_version = granted.exact_version;
  lease.ttl_ms = granted.ttl_ms;
  return lease;
}

// Returns whether a serialized message has more than `most` fields, those of its parts not counted.
// Bytes that are no message have as many as come before the fault.
bool HasMoreFields(grpc::ByteBuffer& bytes, int most) {
  using google::protobuf::internal::WireFormatLite;
  grpc::ProtoBufferReader reader(&bytes);
  google::protobuf::io::CodedInputStream stream(&reader);
  for (int fields = 0; fields <= most; ++fields) {
    const std::uint32_t tag = stream.ReadTag();
    if (tag == 0 || !WireFormatLite::SkipField(&stream, tag)) return false;
  }
  return true;
}

// A long poll. Its request is parsed here, in an arena: gRPC bounds the requests of all methods
// alike, and would allocate each lease of a list by itself.
class ExchangeCall final : public Call<grpc::ServerUnaryReactor> {
 public:
  ExchangeCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, const grpc::ByteBuffer& request,
               grpc::ByteBuffer& response)
      : Call(loop, metrics, "Exchange"), response_bytes_(response) {
    const Status parsed = Parse(request);
    parsed.ok() ? Post() : FinishCall(parsed);
  }

  std::optional<Status> Apply(Turn& turn, bool last) override {
    if (Status known = CheckWorkerRun(turn, request_.run_id()); !known.ok()) return known;
    auto exchange = ExchangeFrom(request_);
    if (!exchange.ok()) return exchange.status();
    if (turn.draining) exchange->capacity = 0;
    const auto reply = turn.scheduler.Exchange(*exchange, turn.now_ms, turn.changes);
    if (!reply.ok()) return reply.status();
    if (request_.has_time()) turn.reports.Take(request_.worker_id(), request_.time());

    response_.Clear();
    BUTTRESS_RETURN_IF_ERROR(TellLeases(turn, *reply));
    BUTTRESS_RETURN_IF_ERROR(TellWeights(turn, *exchange));
    response_.set_run_state(RunStateOf(turn));
    if (response_.run_state() == v1::RUN_STATE_STOPPED &&
        turn.scheduler.AwaitsLearner(request_.worker_id()))
      response_.set_run_state(v1::RUN_STATE_RUNNING);
    response_.set_order(static_cast<v1::WorkerOrder>(turn.scheduler.OrderOf(request_.worker_id())));
    if (HasNews() || last) return OkStatus();
    return std::nullopt;
  }

  void Answer(const Status& status) override {
    if (!status.ok()) return FinishCall(status);
    bool owned = false;
    FinishCall(FromGrpc(grpc::SerializationTraits<v1::ExchangeResponse>::Serialize(
        response_, &response_bytes_, &owned)));
  }

  Awaited awaits() const override {
    const bool has_room = request_.capacity() > 0 && !request_.draining();
    return has_room ? Awaited::kGroups : Awaited::kNews;
  }

  std::int64_t hold_ms() const override { return request_.wait_ms(); }

 private:
  Status Parse(const grpc::ByteBuffer& bytes) {
    if (bytes.Length() > kMaxExchangeBytes) {
      return InvalidArgument(
          fmt::format("an Exchange of {} bytes; expected at most {}, which is more than the leases "
                      "of any worker take",
                      bytes.Length(), kMaxExchangeBytes));
    }
    grpc::ByteBuffer shared = bytes;
    if (HasMoreFields(shared, kMaxExchangeFields))
      return InvalidArgument(
          fmt::format("an Exchange names more than {} leases", kMaxExchangeFields));
    return FromGrpc(
        grpc::SerializationTraits<v1::ExchangeRequest>::Deserialize(&shared, &request_));
  }

  Status TellLeases(Turn& turn, const ExchangeReply& reply) {
    std::size_t bytes = 0;
    for (const GrantedLease& granted : reply.leases) {
      // The worker does not name the others in its next call, which grants them again.
      if (bytes > kLeaseBytes) break;
      // The lease is in the turn's changes already, so an unreadable prompt ends the process.
      const auto lease = WithPrompt(turn, granted);
      if (!lease.ok()) return turn.failed = lease.status();
      *response_.add_leases() = ToProto(*lease);
      bytes += response_.leases(response_.leases_size() - 1).ByteSizeLong();
    }
    for (const LeaseRef& ref : reply.revoked) *response_.add_revoked() = ToProto(ref);
    return OkStatus();
  }

  Status TellWeights(Turn& turn, const WorkerExchange& exchange) {
    const PublishedWeights* const weights = turn.scheduler.weights();
    if (weights == nullptr || !OlderThan(exchange.loaded_version, weights->version))
      return OkStatus();
    if (Status parsed = turn.announced.Parse(*weights); !parsed.ok())
      return turn.failed = std::move(parsed);
    v1::WeightManifest& manifest = *response_.mutable_weights();
    manifest = turn.announced.manifest;
    for (std::string& relay : turn.scheduler.WeightRelays(exchange.worker_id, turn.now_ms))
      manifest.add_sources(std::move(relay));
    return OkStatus();
  }

  bool HasNews() const {
    // A worker has nothing to do while the learner writes the checkpoint of a stop.
    const bool waits = response_.run_state() == v1::RUN_STATE_RUNNING ||
                       response_.run_state() == v1::RUN_STATE_STOPPING;
    return response_.has_weights() || response_.leases_size() > 0 || response_.revoked_size() > 0 ||
           !waits || response_.order() == v1::WORKER_ORDER_DRAIN;
  }

  google::protobuf::Arena arena_;
  v1::ExchangeRequest& request_ =
      *google::protobuf::Arena::CreateMessage<v1::ExchangeRequest>(&arena_);
  v1::ExchangeResponse response_;
  grpc::ByteBuffer& response_bytes_;
};

}  // namespace

Status AnnouncedManifest::Parse(const PublishedWeights& weights) {
  if (version == weights.version) return OkStatus();
  if (!manifest.ParseFromString(weights.manifest)) {
    return DataLoss(
        fmt::format("the ledger's manifest of version {} is not a WeightManifest; "
                    "restore ledger.db from a copy",
                    ToString(weights.version)));
  }
  version = weights.version;
  return OkStatus();
}

grpc::ServerUnaryReactor* CoordinatorService::RegisterWorker(
    grpc::CallbackServerContext*, const v1::RegisterWorkerRequest* request,
    v1::RegisterWorkerResponse* response) {
  return Handle("RegisterWorker", [request, response](Turn& turn) -> Status {
    const std::string& id = request->worker_id();
    if (id.empty() || !IsPlainName(id)) {
      return InvalidArgument(
          fmt::format("worker_id has {} bytes; expected 1 to {} without white space or control "
                      "characters",
                      id.size(), kMaxNameBytes));
    }
    if (!IsPlainName(request->weights_address()) || !IsPlainName(request->metrics_address())) {
      return InvalidArgument(fmt::format(
          "worker '{}': an address is not host:port of at most {} bytes", id, kMaxNameBytes));
    }
    if (request->config_sha256() != turn.terms.config_sha256) {
      return FailedPrecondition(
          fmt::format("worker '{}' runs configuration {}, the coordinator {}; "
                      "the `run` half of the file must "
                      "be the same on both",
                      id, request->config_sha256(), turn.terms.config_sha256));
    }
    BUTTRESS_RETURN_IF_ERROR(
        turn.scheduler.CheckOrigin(id, request->run_id(), request->start_id()));
    BUTTRESS_RETURN_IF_ERROR(turn.scheduler.CheckWorker(id, request->incarnation()));
    BUTTRESS_RETURN_IF_ERROR(turn.scheduler.MakeRoomForWorker(id));
    turn.scheduler.RegisterWorker(id, request->incarnation(),
                                  {request->metrics_address(), request->weights_address()},
                                  turn.now_ms, turn.changes);
    turn.scheduler.NoteOrigin(id, request->start_id());
    response->set_coordinator_epoch(turn.scheduler.run().coordinator_epoch);
    response->set_run_name(turn.terms.run_name);
    response->set_run_id(turn.scheduler.run().run_id);
    response->set_start_id(turn.terms.start_id);
    response->set_steps(turn.scheduler.steps());
    Log(kInfo, "worker registered",
        {{"worker", id},
         {"engine", request->engine()},
         {"metrics", request->metrics_address()},
         {"weights", request->weights_address()}});
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Exchange(grpc::CallbackServerContext*,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return new ExchangeCall(loop_, metrics_, *request, *response);
}

}  // namespace buttress
