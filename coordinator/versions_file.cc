#include "coordinator/versions_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "coordinator/git_commit.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/checks/reward_files.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr int kNice = 19;
constexpr std::size_t kMostStarts = 100;  // a coordinator that fails may be started for ever
constexpr const char* kParts[] = {"programs", "model", "data"};

// The files of a folder in the order of their names, or the file.
std::vector<std::string> FilesAt(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return path.empty() ? std::vector<std::string>() : std::vector{path};
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end;
       !error && it != end && files.size() < RecordedFiles::kMostFiles; it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path().string());
  }
  std::ranges::sort(files);
  return files;
}

// {"path", "bytes", "modified", "sha256": null}; of a file that cannot be read, the path alone.
ordered_json FileJson(const std::string& path) {
  ordered_json json = {
      {"path", path}, {"bytes", nullptr}, {"modified", nullptr}, {"sha256", nullptr}};

  struct stat info {};

  if (::stat(path.c_str(), &info) != 0) return json;
  json["bytes"] = info.st_size;
  json["modified"] = info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
  return json;
}

// "name=version,name=version" of the build.
ordered_json LibrariesJson() {
  ordered_json json = ordered_json::object();
  std::string_view rest = BUTTRESS_LIBRARIES;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos)
      json[std::string(one.substr(0, equals))] = one.substr(equals + 1);
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  json["compiler"] = __VERSION__;
  return json;
}

// The value of the first line "NAME   : value" or "NAME: value" of a file of /proc; empty without.
std::string ProcValue(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

ordered_json HostJson() {
  struct utsname system {};

  ::uname(&system);
  return {{"name", system.nodename},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"cpu", ProcValue("/proc/cpuinfo", "model name")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory", ProcValue("/proc/meminfo", "MemTotal")},
          {"gpu_driver", ProcValue("/proc/driver/nvidia/version", "NVRM version")}};
}

// The digests are there at once: a resume compares them.
ordered_json RewardJson(const RewardConfig& config) {
  ordered_json json = ordered_json::array();
  for (const RewardFile& file : RewardFilesOf(config)) {
    json.push_back({{"path", file.path}, {"name", file.name}, {"sha256", nullptr}});
    if (!file.sha256.empty()) json.back()["sha256"] = file.sha256;
  }
  return json;
}

ordered_json StartJson(const RunConfig& config, const RecordedFiles& files) {
  ordered_json start = {{"time_unix", static_cast<double>(RealClock().UnixMs()) / 1000},
                        {"buttress", {{"version", BUTTRESS_VERSION}, {"commit", kGitCommit}}},
                        {"libraries", LibrariesJson()},
                        {"host", HostJson()},
                        {"config_sha256", RunConfigHash(config)}};
  for (const auto& [part, paths] : {std::pair{kParts[0], &files.programs},
                                    {kParts[1], &files.model},
                                    {kParts[2], &files.data}}) {
    start[part] = ordered_json::array();
    for (const std::string& path : *paths) start[part].push_back(FileJson(path));
  }
  start["reward_revision"] = config.run.reward.python.revision;
  start["reward"] = RewardJson(config.run.reward);
  return start;
}

// Takes over digests of files that have not changed since.
void ReuseDigests(const ordered_json& before, ordered_json& start) {
  for (const char* part : kParts) {
    if (!before.contains(part) || !before[part].is_array()) continue;
    for (ordered_json& file : start[part]) {
      for (const ordered_json& known : before[part]) {
        if (!known.is_object() || file["bytes"].is_null()) continue;
        const bool same = known.value("path", ordered_json()) == file["path"] &&
                          known.value("bytes", ordered_json()) == file["bytes"] &&
                          known.value("modified", ordered_json()) == file["modified"];
        if (same) file["sha256"] = known.value("sha256", ordered_json());
      }
    }
  }
}

// The starts that the file holds; none if it is not there or damaged.
ordered_json ReadStarts(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) return ordered_json::array();
  auto json = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("starts") && json["starts"].is_array())
    return json["starts"];
  Log(kWarn, "the record of versions is damaged and begins anew", {{"file", path}});
  return ordered_json::array();
}

}  // namespace

RecordedFiles RecordedFiles::Of(const RunConfig& config) {
  RecordedFiles files;
  const fs::path installed = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* program : {"buttress", "coordinator", "rollout_worker", "learner"})
    files.programs.push_back((installed / program).string());
  files.model = FilesAt(config.run.model.path);
  for (std::string& file : FilesAt(config.run.lora.adapter)) files.model.push_back(std::move(file));
  std::vector<std::string> datasets = {config.run.data.prompts, config.run.data.held_out};
  for (const auto& [name, source] : config.run.data.sources) datasets.push_back(source.prompts);
  for (const std::string& path : datasets) {
    for (std::string& file : FilesAt(path)) files.data.push_back(std::move(file));
  }
  return files;
}

VersionsRecord::VersionsRecord(const RunConfig& config, RecordedFiles files)
    : path_(VersionsPath(config.local.out)) {
  ordered_json starts = ReadStarts(path_);
  ordered_json start = StartJson(config, files);
  if (!starts.empty()) ReuseDigests(starts.back(), start);
  starts.push_back(std::move(start));
  while (starts.size() > kMostStarts) starts.erase(1);  // the first one is how the run began
  record_["starts"] = std::move(starts);
  if (const Status written = Write(); !written.ok())
    Log(kWarn, "the versions of this start are not recorded", {{"why", written.message()}});
  thread_ = std::thread([this] { Run(); });
}

VersionsRecord::~VersionsRecord() {
  stop_ = true;
  Finish();
}

void VersionsRecord::Finish() {
  if (thread_.joinable()) thread_.join();
}

void VersionsRecord::Run() {
  ::setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone
  bool any = false;
  for (const char* part : kParts) {
    for (ordered_json& file : record_["starts"].back()[part]) any = Hash(file) || any;
  }
  if (!any) return;
  if (const Status written = Write(); !written.ok())
    Log(kWarn, "the digests of this start are not recorded", {{"why", written.message()}});
}

// Returns whether the digest was computed.
bool VersionsRecord::Hash(ordered_json& file) {
  if (file["bytes"].is_null() || !file["sha256"].is_null()) return false;
  std::ifstream stream(file["path"].get<std::string>(), std::ios::binary);
  std::string buffer(kReadBytes, '\0');
  Sha256 sha256;
  while (stream && !stop_) {
    stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sha256.Update(std::string_view(buffer).substr(0, static_cast<std::size_t>(stream.gcount())));
  }
  if (stop_ || !stream.eof()) return false;
  file["sha256"] = ToHex(sha256.Finish());
  return true;
}

Status VersionsRecord::Write() {
  using Handler = ordered_json::error_handler_t;
  return WriteFileAtomic(path_, record_.dump(2, ' ', false, Handler::replace) + "\n");
}

}  // namespace buttress
