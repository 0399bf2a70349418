#include "lib/data/dataset.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/text/digest.h"
#include "lib/data/arrow_library.h"
#include "lib/data/child_process.h"
#include "lib/data/dataset_files.h"

namespace buttress {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::chrono::hours kFileTime(1);  // for one file of Parquet or Arrow

Status FileError(const std::string& what, const std::string& path) {
  return Unavailable(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

// Writes rows to a descriptor that it does not own.
class RowWriter {
 public:
  RowWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Status Write(std::string_view row) {
    text_.append(row).push_back('\n');
    return text_.size() < kBlockBytes ? OkStatus() : Flush();
  }

  Status Flush() {
    if (ShutdownRequested()) return Cancelled("stopped by a signal");
    std::string_view rest = text_;
    while (!rest.empty()) {
      const ssize_t n = ::write(fd_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("write the rows of the dataset to", path_);
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    text_.clear();
    return OkStatus();
  }

 private:
  const int fd_;
  const std::string path_;
  std::string text_;
};

Result<std::string> DigestOf(const DatasetFiles& files) {
  Sha256 sha256;
  std::vector<char> block(kBlockBytes);
  for (const std::string& path : files.paths) {
    std::FILE* file = std::fopen(path.c_str(), "rbe");
    if (file == nullptr) return FileError("read", path);
    for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), file)) > 0;)
      sha256.Update({block.data(), n});
    const bool failed = std::ferror(file) != 0;
    std::fclose(file);
    if (failed) return FileError("read", path);
  }
  return ToHex(sha256.Finish());
}

// Arrow trusts lengths that it reads, so that a damaged file may crash the process: it is a child.
Status ConvertColumns(const std::string& path, RowWriter& writer) {
  BUTTRESS_RETURN_IF_ERROR(LoadArrow(path));
  const auto convert = [&path, &writer]() -> Status {
    const RowSink sink = [&writer](std::string_view row) { return writer.Write(row); };
    BUTTRESS_RETURN_IF_ERROR(ReadColumns(path, sink));
    return writer.Flush();
  };
  return RunInChild(convert, kFileTime).Annotate(path);
}

Status Convert(const DatasetFiles& files, RowWriter& writer) {
  const RowSink sink = [&writer](std::string_view row) { return writer.Write(row); };
  for (const std::string& path : files.paths) {
    Status status;
    if (files.format == DatasetFormat::kCsv) {
      status = ReadCsv(path, sink);
    } else if (files.format == DatasetFormat::kJsonArray) {
      status = ReadJsonArray(path, sink);
    } else {
      status = ConvertColumns(path, writer);
    }
    BUTTRESS_RETURN_IF_ERROR(status);
  }
  return writer.Flush();
}

// Converts to a file that has a name only until it is open.
Result<JsonlFile> ConvertUnnamed(const DatasetFiles& files) {
  std::string path = (std::filesystem::temp_directory_path() / "buttress-rows-XXXXXX").string();
  JsonlFile file(::mkostemp(path.data(), O_CLOEXEC), /*converted=*/true);
  if (file.fd() < 0) return FileError("create", path);
  ::unlink(path.c_str());
  RowWriter writer(file.fd(), path);
  BUTTRESS_RETURN_IF_ERROR(Convert(files, writer));
  return file;
}

Result<JsonlFile> ConvertTo(const DatasetFiles& files, const std::string& cache) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string digest, DigestOf(files));
  const std::string path = JoinPath(cache, digest + ".jsonl");
  JsonlFile known(::open(path.c_str(), O_RDONLY | O_CLOEXEC), /*converted=*/true);
  if (known.fd() >= 0) return known;
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(cache));
  std::string partial = path + ".XXXXXX";
  JsonlFile file(::mkostemp(partial.data(), O_CLOEXEC), /*converted=*/true);
  if (file.fd() < 0) return FileError("create", partial);
  RowWriter writer(file.fd(), partial);
  Status status = Convert(files, writer);
  if (status.ok() && (::fsync(file.fd()) != 0 || ::rename(partial.c_str(), path.c_str()) != 0))
    status = FileError("write", path);
  if (!status.ok()) {
    ::unlink(partial.c_str());
    return status;
  }
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(cache));
  return file;
}

}  // namespace

JsonlFile::~JsonlFile() {
  if (fd_ >= 0) ::close(fd_);
}

JsonlFile::JsonlFile(JsonlFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), converted_(other.converted_) {}

Result<JsonlFile> OpenAsJsonl(const std::string& path, const std::string& cache) {
  BUTTRESS_ASSIGN_OR_RETURN(const DatasetFiles files, FindDatasetFiles(path));
  if (files.format != DatasetFormat::kJsonl)
    return cache.empty() ? ConvertUnnamed(files) : ConvertTo(files, cache);
  // Without O_NONBLOCK a FIFO that has come since would wait for a writer.
  JsonlFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), /*converted=*/false);
  if (file.fd() >= 0) return file;
  return InvalidArgument(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
}

}  // namespace buttress
