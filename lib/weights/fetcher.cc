#include "lib/weights/fetcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"
#include "lib/weights/word_changes.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kLook(100);  // at whether a transfer is to continue
constexpr std::size_t kMaxRelays = 2;            // that are asked before the publisher
constexpr std::int64_t kAvoidMs = 60000;         // a worker that failed

class SharedFetcher : public WeightFetcher {
 public:
  Result<WeightManifest> Fetch(const WeightManifest& manifest,
                               const std::function<bool()>& unwanted) override {
    BUTTRESS_RETURN_IF_ERROR(CheckManifest(manifest));
    if (manifest.folder.empty()) {
      return FailedPrecondition(
          fmt::format("version {} names no shared folder; use local.worker.weights: grpc",
                      ToString(manifest.version)));
    }
    if (unwanted && unwanted()) return Cancelled("the version is no longer wanted");
    BUTTRESS_RETURN_IF_ERROR(VerifyFiles(manifest.folder, manifest));
    return manifest;
  }
};

// Decides when a transfer is given up: when it is no longer wanted, or when the source is too slow.
// Only bytes extend the time of a source, by what they take at the least rate; bytes that came fast
// buy no more than the patience.
class TransferLimit {
 public:
  TransferLimit(const GrpcFetcherOptions& options, const std::function<bool()>& unwanted)
      : options_(options), unwanted_(unwanted), deadline_(Now() + Patience()) {}

  void Count(std::size_t bytes) {
    const double seconds =
        static_cast<double>(bytes) / static_cast<double>(options_.least_bytes_per_second);
    deadline_ = std::min(deadline_ + seconds, Now() + Patience());
  }

  // Returns OK if the transfer is to continue.
  Status Check() const {
    if (unwanted_ && unwanted_()) return Cancelled("the version is no longer wanted");
    if (Now() < deadline_) return OkStatus();
    return Unavailable(
        fmt::format("the source is slower than {} bytes per second, by more than {} ms",
                    options_.least_bytes_per_second, options_.patience_ms));
  }

 private:
  static double Now() { return MonotonicSeconds(); }

  double Patience() const { return static_cast<double>(options_.patience_ms) / 1000; }

  const GrpcFetcherOptions& options_;
  const std::function<bool()>& unwanted_;
  double deadline_;  // in seconds
};

// The chunks of one Fetch call, as long as `limit` permits it.
class ChunkStream {
 public:
  ChunkStream(v1::Weights::Stub& stub, const v1::FetchWeightsRequest& request,
              const TransferLimit& limit)
      : limit_(limit), reader_(stub.PrepareAsyncFetch(&context_, request, &events_)) {
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
    BUTTRESS_RETURN_IF_ERROR(limit_.Check());  // chunks may come without a wait
    v1::WeightChunk chunk;
    if (alive_) {
      reader_->Read(&chunk, this);
      alive_ = WaitForEvent();
    }
    if (alive_) return std::optional<v1::WeightChunk>(std::move(chunk));
    BUTTRESS_RETURN_IF_ERROR(given_up_);
    const grpc::Status status = Finish();
    if (status.ok()) return std::optional<v1::WeightChunk>();
    return FromGrpc(status);
  }

 private:
  // Returns whether the pending operation succeeded.
  bool WaitForEvent() {
    void* tag = nullptr;
    bool ok = false;
    while (events_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kLook) !=
           grpc::CompletionQueue::GOT_EVENT) {
      given_up_ = limit_.Check();
      if (given_up_.ok()) continue;
      context_.TryCancel();
      events_.Next(&tag, &ok);
      return false;
    }
    return ok;
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

  const TransferLimit& limit_;
  grpc::ClientContext context_;
  grpc::CompletionQueue events_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::WeightChunk>> reader_;
  bool alive_ = false;
  Status given_up_;
  bool finished_ = false;
};

// The file of an older version that is here, from which a source may send the changes.
struct BaseFile {
  PolicyVersion version;
  std::string path;
};

// Replaces the changes of a chunk by the bytes of the file.
Status RestoreData(int base, v1::WeightChunk& chunk) {
  if (chunk.changed_bytes() == 0) return OkStatus();
  std::string& data = *chunk.mutable_data();
  if (base < 0 || chunk.changed_bytes() > kChunkBytes || !data.empty())
    return DataLoss(fmt::format("chunk at byte {} has changes without a base", chunk.offset()));
  data.resize(chunk.changed_bytes());
  const ssize_t n = ::pread(base, data.data(), data.size(), static_cast<off_t>(chunk.offset()));
  if (n != static_cast<ssize_t>(data.size()))
    return DataLoss(fmt::format("cannot read the base of the chunk at byte {}", chunk.offset()));
  return ApplyChanges(chunk.changes(), data);
}

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

// The download of one file from one source.
struct FileDownload {
  v1::Weights::Stub& source;
  const PolicyVersion& version;
  const WeightFile& file;
  const GrpcFetcherOptions& options;
  const std::function<bool()>& unwanted;
  PartFile& part;
  Sha256& sha;
  std::uint64_t received = 0;  // bytes, as changes or as they are

  // Appends the bytes of the file behind those of `part` to `part` and `sha`. Keeps the received
  // bytes on failure, for the next attempt.
  Status Run(const std::optional<BaseFile>& base) {
    if (!base) return Run(nullptr, -1);
    const int fd = ::open(base->path.c_str(), O_RDONLY | O_CLOEXEC);
    const Status status = Run(fd < 0 ? nullptr : &base->version, fd);
    if (fd >= 0) ::close(fd);
    // Bytes of a base that are damaged on this disk show in the CRC-32 of a chunk.
    return status.code() == StatusCode::kDataLoss ? Run(nullptr, -1) : status;
  }

 private:
  Status Run(const PolicyVersion* base, int base_fd) {
    v1::FetchWeightsRequest request;
    *request.mutable_version() = ToProto(version);
    if (base != nullptr) *request.mutable_base() = ToProto(*base);
    request.set_file(file.name);
    request.set_offset(part.size());
    TransferLimit limit(options, unwanted);
    ChunkStream chunks(source, request, limit);
    while (part.size() < file.bytes) {
      BUTTRESS_ASSIGN_OR_RETURN(std::optional<v1::WeightChunk> chunk, chunks.Next());
      if (!chunk.has_value()) {
        return Unavailable(fmt::format("transfer ended at byte {} of {}", part.size(), file.bytes));
      }
      const std::size_t sent = chunk->data().size() + chunk->changes().size();
      BUTTRESS_RETURN_IF_ERROR(RestoreData(base_fd, *chunk));
      BUTTRESS_RETURN_IF_ERROR(CheckChunk(*chunk, part.size(), file.bytes));
      BUTTRESS_RETURN_IF_ERROR(part.Append(chunk->data()));
      sha.Update(chunk->data());
      limit.Count(chunk->data().size());
      received += sent;
    }
    return OkStatus();
  }
};

class GrpcFetcher : public WeightFetcher {
 public:
  GrpcFetcher(WeightStoreOptions store, GrpcFetcherOptions options)
      : store_(std::move(store)), options_(std::move(options)), random_({options_.seed, 0}) {}

  Result<WeightManifest> Fetch(const WeightManifest& manifest,
                               const std::function<bool()>& unwanted) override {
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
    stubs_.clear();
    received_ = 0;
    for (const WeightFile& file : manifest.files)
      BUTTRESS_RETURN_IF_ERROR(FetchFile(local, file, unwanted));
    BUTTRESS_RETURN_IF_ERROR(WriteManifest(local.folder, local));
    Log(kInfo, "weights received",
        {{"policy", ToString(local.version)}, {"bytes", received_}, {"of", local.total_bytes()}});
    DeleteOldVersions(store_.folder, store_.keep);
    return local;
  }

 private:
  // Returns whether an earlier call or process fetched the version and its bytes are still right.
  bool IsComplete(const WeightManifest& local) const REQUIRES(mutex_) {
    const Result<WeightManifest> found = ReadManifest(local.folder);
    return found.ok() && found->version == local.version && VerifyFiles(local.folder, local).ok();
  }

  // Returns the sources in the order in which they are asked: some workers, then the publisher.
  std::vector<std::string> SourcesOf(const WeightManifest& manifest) REQUIRES(mutex_) {
    const std::int64_t now_ms = RealClock().MonotonicMs();
    std::erase_if(failed_ms_, [&](const auto& entry) { return now_ms - entry.second >= kAvoidMs; });
    std::vector<std::string> order(manifest.sources.begin() + 1, manifest.sources.end());
    std::erase_if(order, [this](const auto& source) { return failed_ms_.contains(source); });
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
    order.resize(std::min(order.size(), kMaxRelays));
    order.push_back(manifest.sources.front());
    return order;
  }

  // Returns the file of the newest version that is here, if it has the size.
  std::optional<BaseFile> BaseOf(const WeightManifest& local, const WeightFile& file) const
      REQUIRES(mutex_) {
    const std::vector<PolicyVersion> versions = ListVersions(store_.folder);
    if (versions.empty() || VersionFolder(store_.folder, versions.back()) == local.folder)
      return std::nullopt;
    const std::string folder = VersionFolder(store_.folder, versions.back());
    const Result<WeightManifest> base = ReadManifest(folder);
    if (!base.ok()) return std::nullopt;
    const auto found = std::ranges::find(base->files, file.name, &WeightFile::name);
    if (found == base->files.end() || found->bytes != file.bytes) return std::nullopt;
    return BaseFile{base->version, JoinPath(folder, file.name)};
  }

  // Asks one source after another until one completes the file.
  Status FetchFile(const WeightManifest& local, const WeightFile& file,
                   const std::function<bool()>& unwanted) REQUIRES(mutex_) {
    StatusCode code = StatusCode::kOk;
    std::string failures;
    for (const std::string& source : SourcesOf(local)) {
      const Status status = FetchFileFrom(source, local, file, unwanted);
      if (status.ok() || status.code() == StatusCode::kCancelled) return status;
      failed_ms_[source] = RealClock().MonotonicMs();
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", source, status.ToString());
      // One unavailable source makes another attempt worthwhile, whatever the others answered.
      if (code == StatusCode::kOk || status.code() == StatusCode::kUnavailable)
        code = status.code();
    }
    return Status(code, fmt::format("file {} of version {} ({})", file.name,
                                    ToString(local.version), failures));
  }

  Status FetchFileFrom(const std::string& source, const WeightManifest& local,
                       const WeightFile& file, const std::function<bool()>& unwanted)
      REQUIRES(mutex_) {
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
    std::unique_ptr<v1::Weights::Stub>& stub = stubs_[source];
    if (stub == nullptr) stub = v1::Weights::NewStub(MakeChannel(source, options_.credentials));
    FileDownload download{*stub, local.version, file, options_, unwanted, *part, sha};
    Status status = download.Run(BaseOf(local, file));
    received_ += download.received;
    if (status.ok()) status = VerifyAndCommit(file, sha, *part);
    if (options_.on_transfer)
      options_.on_transfer({source == local.sources.front(), download.received, status.ok()});
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
  RandomStream random_ GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> failed_ms_ GUARDED_BY(mutex_);  // when sources last failed
  // One connection to each source serves all files of a version.
  std::map<std::string, std::unique_ptr<v1::Weights::Stub>> stubs_ GUARDED_BY(mutex_);
  std::optional<std::string> run_id_ GUARDED_BY(mutex_);  // of the versions in the store
  std::uint64_t received_ GUARDED_BY(mutex_) = 0;         // bytes of the version
};

}  // namespace

std::unique_ptr<WeightFetcher> MakeSharedFetcher() { return std::make_unique<SharedFetcher>(); }

std::unique_ptr<WeightFetcher> MakeGrpcFetcher(WeightStoreOptions store,
                                               GrpcFetcherOptions options) {
  return std::make_unique<GrpcFetcher>(std::move(store), std::move(options));
}

}  // namespace buttress
