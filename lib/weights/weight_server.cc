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
#include <optional>
#include <utility>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/net/address.h"
#include "lib/base/os/file.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/grpc_status.h"
#include "lib/rpc/rpc_server.h"
#include "lib/weights/version_folder.h"
#include "lib/weights/word_changes.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace{500};

// An open file of a version. It stays readable after the version is deleted.
class ServedFile {
 public:
  ServedFile() = default;

  ServedFile(int fd, std::uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  ServedFile(ServedFile&& other) noexcept { *this = std::move(other); }

  ~ServedFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  ServedFile& operator=(ServedFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::uint64_t bytes() const { return bytes_; }

  // Fills `out` with the bytes at `offset`.
  Status Read(std::uint64_t offset, std::string& out) const {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0) return DataLoss(std::string("read: ") + std::strerror(errno));
    if (static_cast<std::size_t>(n) < out.size())
      return DataLoss("the file is shorter than in its manifest");
    return OkStatus();
  }

 private:
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
};

// Opens a file of a version. Only files that the manifest of the version names are served, so that
// a request cannot reach any other file.
Result<ServedFile> OpenServed(const std::string& folder, const v1::PolicyVersion& of,
                              const std::string& name) {
  BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion version, FromProto(of));
  const std::string version_folder = VersionFolder(folder, version);
  const Result<WeightManifest> manifest = ReadManifest(version_folder);
  if (!manifest.ok() || (!version.digest.empty() && manifest->version.digest != version.digest)) {
    return NotFound(fmt::format("version {} with this digest does not exist", ToString(version)));
  }
  const auto file = std::ranges::find(manifest->files, name, &WeightFile::name);
  if (file == manifest->files.end())
    return NotFound(fmt::format("version {} has no such file", ToString(version)));
  const int fd =
      ::open(JoinPath(version_folder, file->name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NotFound(fmt::format("version {} was deleted", ToString(version)));
  return ServedFile(fd, file->bytes);
}

// Sends one file. A chunk is read from the disk after the one before it was sent, so that HTTP/2
// flow control bounds the memory.
class FetchReactor : public grpc::ServerWriteReactor<v1::WeightChunk> {
 public:
  FetchReactor(const std::string& folder, const v1::FetchWeightsRequest& request)
      : offset_(request.offset()) {
    if (const Status opened = Open(folder, request); !opened.ok()) {
      Finish(ToGrpc(opened));
      return;
    }
    SendNext();
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
  Status Open(const std::string& folder, const v1::FetchWeightsRequest& request) {
    BUTTRESS_ASSIGN_OR_RETURN(file_, OpenServed(folder, request.version(), request.file()));
    if (offset_ > file_.bytes())
      return OutOfRange(fmt::format("offset {} of a file of {} bytes", offset_, file_.bytes()));
    if (!request.has_base()) return OkStatus();
    Result<ServedFile> base = OpenServed(folder, request.base(), request.file());
    has_base_ = base.ok() && base->bytes() == file_.bytes();
    if (has_base_) base_ = *std::move(base);
    return OkStatus();
  }

  void SendNext() {
    if (offset_ == file_.bytes()) {
      Finish(grpc::Status::OK);
      return;
    }
    std::string& data = *chunk_.mutable_data();
    data.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, file_.bytes() - offset_)));
    if (const Status read = file_.Read(offset_, data); !read.ok()) {
      Finish(ToGrpc(read));
      return;
    }
    chunk_.set_offset(offset_);
    chunk_.set_crc32(static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size())));
    const std::uint64_t bytes = data.size();
    SendAsChanges(data);
    offset_ += bytes;
    StartWrite(&chunk_);
  }

  // Replaces the bytes of the chunk by their changes, where these are fewer.
  void SendAsChanges(std::string& data) {
    chunk_.clear_changes();
    chunk_.clear_changed_bytes();
    if (!has_base_) return;
    base_data_.resize(data.size());
    if (!base_.Read(offset_, base_data_).ok()) return;
    std::optional<std::string> changes = EncodeChanges(base_data_, data);
    if (!changes) return;
    chunk_.set_changed_bytes(static_cast<std::uint32_t>(data.size()));
    chunk_.set_changes(*std::move(changes));
    data.clear();
  }

  ServedFile file_;
  ServedFile base_;
  bool has_base_ = false;
  std::string base_data_;
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
