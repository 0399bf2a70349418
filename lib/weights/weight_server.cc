#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/address.h"
#include "lib/base/file.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"
#include "lib/weights/transport.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace{500};

// An open file of a version; deleting the version does not take it away from who reads it.
struct ServedFile {
  int fd = -1;
  std::uint64_t bytes = 0;
};

// REQUIRES for a file to be served: the version's manifest names it. So nothing else can be
// reached, whatever the request says.
Result<ServedFile> OpenServed(const std::string& folder, const v1::FetchWeightsRequest& request) {
  BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion version, FromProto(request.version()));
  const std::string version_folder = VersionFolder(folder, version);
  const Result<WeightManifest> manifest = ReadManifest(version_folder);
  if (!manifest.ok() || (!version.digest.empty() && manifest->version.digest != version.digest)) {
    return NotFound("version " + ToString(version) + " with that digest is not here");
  }
  const auto file =
      std::find_if(manifest->files.begin(), manifest->files.end(),
                   [&](const WeightFile& candidate) { return candidate.name == request.file(); });
  if (file == manifest->files.end())
    return NotFound("version " + ToString(version) + " has no such file");
  if (request.offset() > file->bytes) {
    return OutOfRange("offset " + std::to_string(request.offset()) + " lies behind the file's " +
                      std::to_string(file->bytes) + " bytes");
  }
  const int fd =
      ::open(JoinPath(version_folder, file->name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NotFound("version " + ToString(version) + " is gone");
  return ServedFile{fd, file->bytes};
}

// Sends one file, a chunk at a time: the next is read when the last one has left, so HTTP/2 flow
// control bounds what is in memory.
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
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the receiver has gone"));
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
                          n == 0 ? "the file is shorter than its manifest says"
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

class GrpcWeightServer : public WeightServer {
 public:
  explicit GrpcWeightServer(const std::string& folder) : service_(folder) {}

  ~GrpcWeightServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  }

  Status Listen(const std::string& listen, const Credentials& credentials) {
    grpc::ServerBuilder builder;
    int port = 0;
    ApplyServerOptions(builder);
    builder.AddListeningPort(listen, MakeServerCredentials(credentials), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return Unavailable("cannot listen on " + listen + " for weights; is the port taken?");
    }
    address_ = BoundAddress(listen, port);
    return OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  WeightsService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<WeightServer>> WeightServer::Start(const std::string& folder,
                                                          const std::string& listen,
                                                          const Credentials& credentials) {
  auto server = std::make_unique<GrpcWeightServer>(folder);
  BUTTRESS_RETURN_IF_ERROR(server->Listen(listen, credentials));
  return std::unique_ptr<WeightServer>(std::move(server));
}

}  // namespace buttress
