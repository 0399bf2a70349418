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
#include "lib/weights/transport.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

// The chunks of one Fetch call. Every wait ends after `progress_timeout`, so a peer that stands
// still is noticed.
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

  // The next chunk, nothing at the end of the file. After a failure: no further calls.
  Result<std::optional<v1::WeightChunk>> Next() {
    v1::WeightChunk chunk;
    if (alive_) {
      reader_->Read(&chunk, this);
      alive_ = WaitForEvent();
    }
    if (alive_) return std::optional<v1::WeightChunk>(std::move(chunk));
    if (timed_out_) {
      return Unavailable("not a byte came for " + std::to_string(progress_timeout_.count()) +
                         " ms");
    }
    const grpc::Status status = Finish();
    if (status.ok()) return std::optional<v1::WeightChunk>();
    return FromGrpc(status);
  }

 private:
  // True if the pending operation succeeded; on a timeout the call is cancelled and its event taken
  // off the queue.
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
    return DataLoss("a chunk for byte " + std::to_string(chunk.offset()) + " came where byte " +
                    std::to_string(expected_offset) + " was due");
  }
  if (chunk.data().size() > file_bytes - expected_offset) {
    return DataLoss("more than the manifest's " + std::to_string(file_bytes) + " bytes came");
  }
  const auto* bytes = reinterpret_cast<const Bytef*>(chunk.data().data());
  if (::crc32_z(0, bytes, chunk.data().size()) != chunk.crc32()) {
    return DataLoss("the CRC-32 of the chunk at byte " + std::to_string(expected_offset) +
                    " is wrong");
  }
  return OkStatus();
}

// Appends to `part` what is missing of `file`. The bytes that are there stay on failure, for the
// next attempt.
Status Pull(const std::string& source, const PolicyVersion& version, const WeightFile& file,
            const GrpcFetcherOptions& options, PartFile& part, Sha256& sha) {
  v1::FetchWeightsRequest request;
  *request.mutable_version() = ToProto(version);
  request.set_file(file.name);
  request.set_offset(part.size());
  const auto stub = v1::Weights::NewStub(MakeChannel(source, options.credentials));
  ChunkStream chunks(*stub, request, std::chrono::milliseconds(options.progress_timeout_ms));
  while (part.size() < file.bytes) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::optional<v1::WeightChunk> chunk, chunks.Next());
    if (!chunk.has_value()) {
      return Unavailable("the transfer ended at byte " + std::to_string(part.size()) + " of " +
                         std::to_string(file.bytes));
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
      : store_(std::move(store)),
        options_(std::move(options)),
        durability_(store_.durable ? Durability::kFsync : Durability::kPageCache),
        order_(options_.seed) {}

  Result<WeightManifest> Fetch(const WeightManifest& manifest) override {
    MutexLock lock(mutex_);
    BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
    if (manifest.sources.empty()) {
      return FailedPrecondition("version " + ToString(manifest.version) +
                                " names no Weights service to fetch from");
    }
    WeightManifest local = manifest;
    local.folder = VersionFolder(store_.folder, manifest.version);
    if (IsHere(local)) return local;
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(local.folder));
    for (const WeightFile& file : manifest.files) BUTTRESS_RETURN_IF_ERROR(FetchFile(local, file));
    BUTTRESS_RETURN_IF_ERROR(WriteManifest(local.folder, local, durability_));
    DeleteOldVersions(store_.folder, store_.keep);
    return local;
  }

 private:
  // A version that an earlier process fetched counts only if its bytes are still right.
  bool IsHere(const WeightManifest& local) const REQUIRES(mutex_) {
    const Result<WeightManifest> there = ReadManifest(local.folder);
    return there.ok() && there->version == local.version && VerifyFiles(local.folder, local).ok();
  }

  Status FetchFile(const WeightManifest& local, const WeightFile& file) REQUIRES(mutex_) {
    Status worst;
    std::string tried;
    for (const std::string& source : order_.Order(local.sources, RealClock().MonotonicMs())) {
      const Status status = FetchFileFrom(source, local, file);
      if (status.ok()) {
        order_.Worked(source);
        return status;
      }
      order_.Failed(source, RealClock().MonotonicMs());
      tried += (tried.empty() ? "" : "; ") + source + ": " + status.ToString();
      // A source that may come back decides: then trying again helps.
      if (worst.ok() || status.code() == StatusCode::kUnavailable) worst = status;
    }
    return Status(worst.code(), "file " + file.name + " of version " + ToString(local.version) +
                                    " (" + tried + ")");
  }

  Status FetchFileFrom(const std::string& source, const WeightManifest& local,
                       const WeightFile& file) REQUIRES(mutex_) {
    BUTTRESS_ASSIGN_OR_RETURN(auto part, PartFile::Resume(JoinPath(local.folder, file.name)));
    if (part->size() > file.bytes) {
      BUTTRESS_ASSIGN_OR_RETURN(part, PartFile::Create(JoinPath(local.folder, file.name)));
    }
    Sha256 sha;
    if (part->size() > 0) {
      Log(kInfo, "weights transfer goes on",
          {{"file", file.name}, {"offset", part->size()}, {"source", source}});
      BUTTRESS_RETURN_IF_ERROR(UpdateFromFile(part->part_path(), sha));
    }
    const std::uint64_t before = part->size();
    Status status = Pull(source, local.version, file, options_, *part, sha);
    const std::uint64_t came = part->size() - before;
    if (status.ok()) status = CommitIfRight(file, sha, *part);
    if (options_.on_transfer)
      options_.on_transfer({source == local.sources.front(), came, status.ok()});
    return status;
  }

  Status CommitIfRight(const WeightFile& file, Sha256& sha, PartFile& part) REQUIRES(mutex_) {
    const std::string sha256 = sha.Finish();
    if (sha256 == file.sha256) return part.Commit(durability_);
    part.Discard();
    return DataLoss("SHA-256 " + ToHex(sha256) + " came where the manifest says " +
                    ToHex(file.sha256));
  }

  const WeightStoreOptions store_;
  const GrpcFetcherOptions options_;
  const Durability durability_;
  Mutex mutex_;  // one transfer at a time
  SourceOrder order_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options) {
  return std::make_unique<GrpcFetcher>(std::move(store), std::move(options));
}

}  // namespace buttress
