#include "lib/weights/weight_server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/net/address.h"
#include "lib/base/os/file.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"
#include "lib/rpc/rpc_server.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace{500};

// An open file of a version. It stays readable after the version is deleted.
struct ServedFile {
  int fd = -1;
  std::uint64_t bytes = 0;
};

// Opens the file that a request names. Only files that the manifest of the version names are
// served, so that a request cannot reach any other file.
Result<ServedFile> OpenServed(const std::string& folder, const v1::FetchWeightsRequest& request) {
  BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion version, FromProto(request.version()));
  const std::string version_folder = VersionFolder(folder, version);
  const Result<WeightManifest> manifest = ReadManifest(version_folder);
  if (!manifest.ok() || (!version.digest.empty() && manifest->version.digest != version.digest)) {
    return NotFound(fmt::format("version {} with this digest does not exist", ToString(version)));
  }
  const auto file =
      std::find_if(manifest->files.begin(), manifest->files.end(),
                   [&](const WeightFile& candidate) { return candidate.name == request.file(); });
  if (file == manifest->files.end())
    return NotFound(fmt::format("version {} has no such file", ToString(version)));
  if (request.offset() > file->bytes) {
    return OutOfRange(
        fmt::format("offset {} of a file of {} bytes", request.offset(), file->bytes));
  }
  const int fd =
      ::open(JoinPath(version_folder, file->name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NotFound(fmt::format("version {} was deleted", ToString(version)));
  return ServedFile{fd, file->bytes};
}

// Sends one file. A chunk is read from the disk after the one before it was sent, so that HTTP/2
// flow control bounds the memory.
class FetchReactor : public grpc::ServerWriteReactor<v1::WeightChunk> {
 public:
  FetchReactor(const std::string& folder, const v1::FetchWeightsRequest& request)
      : offset_(request.offset()) {
    const Result<ServedFile> file = OpenServed(folder, request);
    if (!file.ok()) {
      Finish(ToGrpc(file.status()));
      return;
    }
    file_ = *file;
    SendNext();
  }

  ~FetchReactor() override {
    if (file_.fd >= 0) ::close(file_.fd);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      SendNext();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the receiver closed the call"));
    }
  }

  void OnDone() override { delete this; }

 private:
  void SendNext() {
    if (offset_ == file_.bytes) {
      Finish(grpc::Status::OK);
      return;
    }
    std::string& data = *chunk_.mutable_data();
    data.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, file_.bytes - offset_)));
    const ssize_t n = ::pread(file_.fd, data.data(), data.size(), static_cast<off_t>(offset_));
    if (n <= 0) {
      Finish(grpc::Status(grpc::StatusCode::DATA_LOSS,
                          n == 0 ? "the file is shorter than in its manifest"
                                 : std::string("read: ") + std::strerror(errno)));
      return;
    }
    data.resize(static_cast<std::size_t>(n));
    chunk_.set_offset(offset_);
    chunk_.set_crc32(static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size())));
    offset_ += data.size();
    StartWrite(&chunk_);
  }

  ServedFile file_;
  std::uint64_t offset_;
  v1::WeightChunk chunk_;
};

}  // namespace

class WeightsService : public v1::Weights::CallbackService {
 public:
  explicit WeightsService(std::string folder) : folder_(std::move(folder)) {}

  grpc::ServerWriteReactor<v1::WeightChunk>* Fetch(
      grpc::CallbackServerContext*, const v1::FetchWeightsRequest* request) override {
    return new FetchReactor(folder_, *request);
  }

 private:
  const std::string folder_;
};

WeightServer::WeightServer(const std::string& folder)
    : service_(std::make_unique<WeightsService>(folder)) {}

WeightServer::~WeightServer() {
  if (server_ != nullptr) server_->Shutdown(kShutdownGrace);
}

const std::string& WeightServer::address() const { return server_->address(); }

Result<std::unique_ptr<WeightServer>> WeightServer::Start(const std::string& folder,
                                                          const std::string& listen,
                                                          const Credentials& credentials) {
  std::unique_ptr<WeightServer> server(new WeightServer(folder));
  BUTTRESS_ASSIGN_OR_RETURN(server->server_,
                            RpcServer::Start(listen, credentials, {server->service_.get()}));
  return server;
}

}  // namespace buttress
