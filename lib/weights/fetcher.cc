#include "lib/weights/fetcher.h"

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>
#include <zlib.h>

#include <chrono>
#include <optional>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/clock.h"
#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/sync.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"
#include "lib/weights/source_order.h"

namespace buttress {
namespace {

class SharedFetcher : public WeightFetcher {
 public:
  Result<WeightManifest> Fetch(const WeightManifest& manifest) override {
    BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
    if (manifest.folder.empty()) {
      return FailedPrecondition(
          fmt::format("version {} names no shared folder; use local.worker.weights: grpc",
                      ToString(manifest.version)));
    }
    BUTTRESS_RETURN_IF_ERROR(VerifyFiles(manifest.folder, manifest));
    return manifest;
  }
};

// The chunks of one Fetch call. No wait is longer than `progress_timeout`, so that a peer that
// stops sending is detected.
class ChunkStream {
 public:
  ChunkStream(v1::Weights::Stub& stub, const v1::FetchWeightsRequest& request,
              std::chrono::milliseconds progress_timeout)
      : progress_timeout_(progress_timeout),
        reader_(stub.PrepareAsyncFetch(&context_, request, &events_)) {
    reader_->StartCall(this);
    alive_ = WaitForEvent();
  }

  ~ChunkStream() {
    context_.TryCancel();
    if (!finished_) Finish();
    events_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (events_.Next(&tag, &ok)) {
    }
  }

  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  // Returns the next chunk, or nullopt at the end of the file. Must not be called after a failure.
  Result<std::optional<v1::WeightChunk>> Next() {
    v1::WeightChunk chunk;
    if (alive_) {
      reader_->Read(&chunk, this);
      alive_ = WaitForEvent();
    }
    if (alive_) return std::optional<v1::WeightChunk>(std::move(chunk));
    if (timed_out_) {
      return Unavailable(fmt::format("received nothing for {} ms", progress_timeout_.count()));
    }
    const grpc::Status status = Finish();
    if (status.ok()) return std::optional<v1::WeightChunk>();
    return FromGrpc(status);
  }

 private:
  // Returns whether the pending operation succeeded. A timeout cancels the call.
  bool WaitForEvent() {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + progress_timeout_;
    const auto next = events_.AsyncNext(&tag, &ok, deadline);
    if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
    timed_out_ = true;
    context_.TryCancel();
    events_.Next(&tag, &ok);
    return false;
  }

  grpc::Status Finish() {
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    reader_->Finish(&status, this);
    events_.Next(&tag, &ok);
    finished_ = true;
    return status;
  }

  const std::chrono::milliseconds progress_timeout_;
  grpc::ClientContext context_;
  grpc::CompletionQueue events_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::WeightChunk>> reader_;
  bool alive_ = false;
  bool timed_out_ = false;
  bool finished_ = false;
};

Status CheckChunk(const v1::WeightChunk& chunk, std::uint64_t expected_offset,
                  std::uint64_t file_bytes) {
  if (chunk.offset() != expected_offset) {
    return DataLoss(
        fmt::format("chunk starts at byte {}, expected byte {}", chunk.offset(), expected_offset));
  }
  if (chunk.data().size() > file_bytes - expected_offset) {
    return DataLoss(fmt::format("received more than the {} bytes of the manifest", file_bytes));
  }
  const auto* bytes = reinterpret_cast<const Bytef*>(chunk.data().data());
  if (::crc32_z(0, bytes, chunk.data().size()) != chunk.crc32()) {
    return DataLoss(fmt::format("chunk at byte {} has a wrong CRC-32", expected_offset));
  }
  return OkStatus();
}

// Downloads the bytes of `file` behind those of `part` and appends them to `part` and `sha`. Keeps
// the received bytes on failure, for the next attempt.
Status Download(const std::string& source, const PolicyVersion& version, const WeightFile& file,
                const GrpcFetcherOptions& options, PartFile& part, Sha256& sha) {
  v1::FetchWeightsRequest request;
  *request.mutable_version() = ToProto(version);
  request.set_file(file.name);
  request.set_offset(part.size());
  const auto stub =
      v1::Weights::NewStub(MakeChannel(source, options.credentials, Receives::kFiles));
  ChunkStream chunks(*stub, request, std::chrono::milliseconds(options.progress_timeout_ms));
  while (part.size() < file.bytes) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::optional<v1::WeightChunk> chunk, chunks.Next());
    if (!chunk.has_value()) {
      return Unavailable(fmt::format("transfer ended at byte {} of {}", part.size(), file.bytes));
    }
    BUTTRESS_RETURN_IF_ERROR(CheckChunk(*chunk, part.size(), file.bytes));
    BUTTRESS_RETURN_IF_ERROR(part.Append(chunk->data()));
    sha.Update(chunk->data());
  }
  return OkStatus();
}

class GrpcFetcher : public WeightFetcher {
 public:
  GrpcFetcher(WeightStoreOptions store, GrpcFetcherOptions options)
      : store_(std::move(store)), options_(std::move(options)), order_(options_.seed) {}

  Result<WeightManifest> Fetch(const WeightManifest& manifest) override {
    MutexLock lock(mutex_);
    BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
    if (manifest.sources.empty()) {
      return FailedPrecondition(
          fmt::format("version {} names no Weights service", ToString(manifest.version)));
    }
    if (run_id_ != manifest.run_id) {
      DeleteVersionsOfOtherRuns(store_.folder, manifest.run_id);
      run_id_ = manifest.run_id;
    }
    WeightManifest local = manifest;
    local.folder = VersionFolder(store_.folder, manifest.version);
    if (IsComplete(local)) return local;
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(local.folder));
    for (const WeightFile& file : manifest.files) BUTTRESS_RETURN_IF_ERROR(FetchFile(local, file));
    BUTTRESS_RETURN_IF_ERROR(WriteManifest(local.folder, local));
    DeleteOldVersions(store_.folder, store_.keep);
    return local;
  }

 private:
  // Returns whether an earlier call or process fetched the version and its bytes are still right.
  bool IsComplete(const WeightManifest& local) const REQUIRES(mutex_) {
    const Result<WeightManifest> found = ReadManifest(local.folder);
    return found.ok() && found->version == local.version && VerifyFiles(local.folder, local).ok();
  }

  // Asks one source after another until one completes the file.
  Status FetchFile(const WeightManifest& local, const WeightFile& file) REQUIRES(mutex_) {
    StatusCode code = StatusCode::kOk;
    std::string failures;
    for (const std::string& source : order_.Order(local.sources, RealClock().MonotonicMs())) {
      const Status status = FetchFileFrom(source, local, file);
      if (status.ok()) {
        order_.RecordSuccess(source);
        return status;
      }
      order_.RecordFailure(source, RealClock().MonotonicMs());
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", source, status.ToString());
      // One unavailable source makes another attempt worthwhile, whatever the others answered.
      if (code == StatusCode::kOk || status.code() == StatusCode::kUnavailable)
        code = status.code();
    }
    return Status(code, fmt::format("file {} of version {} ({})", file.name,
                                    ToString(local.version), failures));
  }

  Status FetchFileFrom(const std::string& source, const WeightManifest& local,
                       const WeightFile& file) REQUIRES(mutex_) {
    BUTTRESS_ASSIGN_OR_RETURN(auto part, PartFile::Resume(JoinPath(local.folder, file.name)));
    if (part->size() > file.bytes) {
      BUTTRESS_ASSIGN_OR_RETURN(part, PartFile::Create(JoinPath(local.folder, file.name)));
    }
    Sha256 sha;
    if (part->size() > 0) {
      Log(kInfo, "resuming weights transfer",
          {{"file", file.name}, {"offset", part->size()}, {"source", source}});
      BUTTRESS_RETURN_IF_ERROR(UpdateFromFile(part->part_path(), sha));
    }
    const std::uint64_t before = part->size();
    Status status = Download(source, local.version, file, options_, *part, sha);
    const std::uint64_t received = part->size() - before;
    if (status.ok()) status = VerifyAndCommit(file, sha, *part);
    if (options_.on_transfer)
      options_.on_transfer({source == local.sources.front(), received, status.ok()});
    return status;
  }

  Status VerifyAndCommit(const WeightFile& file, Sha256& sha, PartFile& part) REQUIRES(mutex_) {
    const std::string sha256 = sha.Finish();
    if (sha256 == file.sha256) return part.Commit(Durability::kPageCache);
    part.Discard();
    return DataLoss(fmt::format("received bytes have SHA-256 {}, the manifest says {}",
                                ToHex(sha256), ToHex(file.sha256)));
  }

  const WeightStoreOptions store_;
  const GrpcFetcherOptions options_;
  Mutex mutex_;  // one transfer at a time
  SourceOrder order_ GUARDED_BY(mutex_);
  std::optional<std::string> run_id_ GUARDED_BY(mutex_);  // of the versions in the store
};

}  // namespace

std::unique_ptr<WeightFetcher> MakeSharedFetcher() { return std::make_unique<SharedFetcher>(); }

std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options) {
  return std::make_unique<GrpcFetcher>(std::move(store), std::move(options));
}

}  // namespace buttress
