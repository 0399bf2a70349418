#include "lib/data/dataset.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/text/digest.h"
#include "lib/data/arrow/arrow_api.h"
#include "lib/data/child_process.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::chrono::hours kFileTime(1);  // for one file of Parquet or Arrow

constexpr std::size_t kSniffedBytes = 4096;
constexpr std::int64_t kStateBytesMax = std::int64_t{16} << 20;

Result<DatasetFiles> FileOf(const std::string& path) {
  std::error_code unknown;
  if (fs::is_fifo(path, unknown)) return InvalidArgument(path + " is a FIFO; expected a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::array<char, kSniffedBytes> bytes{};
  file.read(bytes.data(), bytes.size());
  const std::string_view head(bytes.data(), static_cast<std::size_t>(file.gcount()));
  const std::string extension = fs::path(path).extension().string();
  if (head.starts_with("PAR1")) return DatasetFiles{DatasetFormat::kParquet, {path}};
  if (head.starts_with("ARROW1") || head.starts_with("\xFF\xFF\xFF\xFF"))
    return DatasetFiles{DatasetFormat::kArrow, {path}};
  if (extension == ".parquet" || extension == ".arrow")
    return InvalidArgument(fmt::format("{} does not begin as a {} file", path, extension));
  if (head.starts_with("\x1F\x8B"))
    return InvalidArgument(path + " is compressed; unpack it with gunzip");
  if (extension == ".csv") return DatasetFiles{DatasetFormat::kCsv, {path}};
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  const bool array = first != std::string_view::npos && head[first] == '[';
  if (array && extension != ".jsonl") return DatasetFiles{DatasetFormat::kJsonArray, {path}};
  return DatasetFiles{DatasetFormat::kJsonl, {path}};
}

// The files in `folder` whose names begin with `prefix`, by name.
std::vector<std::string> ParquetFiles(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".parquet") continue;
    if (entry.path().filename().string().starts_with(prefix)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "train" of train-00000-of-00002.parquet.
std::string SplitOf(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  return stem.substr(0, std::min(stem.size(), stem.find('-')));
}

// The files that save_to_disk wrote, in the order of its state.json.
Result<DatasetFiles> SavedFiles(const std::string& folder) {
  const std::string state_path = JoinPath(folder, "state.json");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(state_path, kStateBytesMax));
  const auto state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  DatasetFiles files{DatasetFormat::kArrow, {}};
  const auto listed = state.is_object() ? state.find("_data_files") : state.end();
  if (listed != state.end() && listed->is_array()) {
    for (const auto& file : *listed) {
      const auto name = file.is_object() ? file.find("filename") : file.end();
      if (name != file.end() && name->is_string())
        files.paths.push_back(
            JoinPath(folder, fs::path(name->get<std::string>()).filename().string()));
    }
  }
  if (files.paths.empty())
    return InvalidArgument(state_path + " names no files; expected _data_files of save_to_disk");
  return files;
}

Result<DatasetFiles> FolderOf(const std::string& folder) {
  if (fs::exists(JoinPath(folder, "state.json"))) return SavedFiles(folder);
  std::set<std::string> splits;
  if (fs::exists(JoinPath(folder, "dataset_dict.json"))) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory()) splits.insert(entry.path().filename());
  }
  DatasetFiles files{DatasetFormat::kParquet, ParquetFiles(folder, "")};
  std::string data = folder;
  if (files.paths.empty()) {
    data = JoinPath(folder, "data");
    files.paths = ParquetFiles(data, "");
  }
  for (const std::string& path : files.paths) splits.insert(SplitOf(path));
  if (splits.empty())
    return InvalidArgument(folder +
                           " is a folder without a dataset; expected Parquet files, or state.json "
                           "and Arrow files as save_to_disk writes them");
  if (splits.size() == 1 && !files.paths.empty()) return files;
  std::string names;
  for (const std::string& split : splits) names += "\n  " + JoinPath(data, split);
  return InvalidArgument(folder + " has several splits; name one:" + names);
}

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

// libbuttress_arrow.so alone links Arrow and is opened at run time, so that the programs start on
// machines without it.
std::string BesideProgram(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return JoinPath(error ? std::string(".") : program.parent_path().string(), name);
}

Result<ArrowReadRows> OpenLibrary() {
  const std::string library_path = BesideProgram("libbuttress_arrow.so");
  void* library = ::dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition(fmt::format("no Arrow: {}", ::dlerror()));
  const auto read = reinterpret_cast<ArrowReadRows>(::dlsym(library, kArrowReadRowsSymbol));
  if (read != nullptr) return read;
  return FailedPrecondition(library_path + " belongs to another build");
}

// Opened once, and stays open.
const Result<ArrowReadRows>& Library() {
  static const Result<ArrowReadRows> library = OpenLibrary();
  return library;
}

// Opens the library unless it is open. kFailedPrecondition says what is missing, and how to convert
// the file `path` without it.
Status LoadArrow(const std::string& path) {
  if (Library().ok()) return OkStatus();
  return FailedPrecondition(
      fmt::format("cannot read {}: {}; run deploy/setup.sh and build again, or convert the file: "
                  "python3 -c \"import pandas; pandas.read_parquet('{}').to_json('rows.jsonl', "
                  "orient='records', lines=True)\"",
                  path, Library().status().message(), path));
}

// Arrow trusts lengths that it reads, so that a damaged file may crash the process: it is a child.
Status ConvertColumns(const std::string& path, RowWriter& writer) {
  BUTTRESS_RETURN_IF_ERROR(LoadArrow(path));
  const auto convert = [&path, &writer]() -> Status {
    const RowSink sink = [&writer](std::string_view row) { return writer.Write(row); };
    BUTTRESS_RETURN_IF_ERROR((*Library())(path, sink));
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

Result<DatasetFiles> FindDatasetFiles(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return FolderOf(path);
  if (fs::exists(path, error)) return FileOf(path);
  const fs::path prefix(path);
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  DatasetFiles shards{DatasetFormat::kParquet,
                      ParquetFiles(folder, prefix.filename().string() + "-")};
  if (!shards.paths.empty()) return shards;
  return FileOf(path);
}

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
