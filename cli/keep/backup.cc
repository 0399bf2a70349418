#include "cli/keep/backup.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/keep/run_folder.h"
#include "cli/output.h"
#include "cli/understand/run_audit.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/database.h"
#include "lib/ledger/segment_file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kListName[] = "backup.json";
constexpr std::int64_t kBackupFormat = 1;
// A run that is running may delete what a copy of its ledger needs; the next copy needs newer
// files.
constexpr int kAttempts = 5;

Status CheckIsNew(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return OkStatus();
  return FailedPrecondition(path + " exists; name a folder that does not");
}

Status MakeEmpty(const std::string& part) {
  std::error_code error;
  fs::remove_all(part, error);
  if (error) return Unavailable("cannot remove " + part + ": " + error.message());
  return MakeFolders(part);
}

struct CopiedFile {
  std::uint64_t bytes = 0;
  std::string sha256;  // 32 bytes
};

constexpr std::uint64_t kWholeFile = std::numeric_limits<std::uint64_t>::max();

// An open file, which can be copied even after it is deleted. kNotFound if it does not exist.
Result<std::ifstream> OpenForCopy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  return file;
}

// Hashes the first `limit` bytes of `from`, or all, and writes them to `to`, if it is not null.
CopiedFile HashAndCopy(std::istream& from, std::uint64_t limit, std::ostream* to) {
  std::vector<char> chunk(1 << 20);
  CopiedFile file;
  Sha256 digest;
  while (file.bytes < limit && from) {
    const auto want = std::min<std::uint64_t>(chunk.size(), limit - file.bytes);
    from.read(chunk.data(), static_cast<std::streamsize>(want));
    digest.Update({chunk.data(), static_cast<std::size_t>(from.gcount())});
    if (to != nullptr) to->write(chunk.data(), from.gcount());
    file.bytes += static_cast<std::uint64_t>(from.gcount());
  }
  file.sha256 = digest.Finish();
  return file;
}

// Copies to the new file `to`, durably. Makes its folders.
Result<CopiedFile> CopyFile(std::ifstream& from, const std::string& to,
                            std::uint64_t limit = kWholeFile) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(fs::path(to).parent_path().string()));
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  CopiedFile copied = HashAndCopy(from, limit, &out);
  if (from.bad()) return Unavailable("cannot read the source of " + to);
  out.close();
  if (!out) return ResourceExhausted("cannot write " + to + "; check the free disk space");
  BUTTRESS_RETURN_IF_ERROR(SyncFile(to));
  return copied;
}

// One attempt at a copy of a run.
class Copier {
 public:
  Copier(std::string folder, std::string part)
      : folder_(std::move(folder)), part_(std::move(part)) {}

  // kNotFound if a file vanished that the copy of the ledger needs.
  Result<BackupSummary> Copy() {
    BUTTRESS_RETURN_IF_ERROR(MakeEmpty(part_));
    PinSegments();
    BUTTRESS_RETURN_IF_ERROR(CopyLedger(JoinPath(folder_, "ledger.db"), In("ledger.db")));
    PinSegments();  // those that began while the ledger was copied
    BUTTRESS_RETURN_IF_ERROR(AddLedgerAndRead());
    BUTTRESS_RETURN_IF_ERROR(CopyArchives());
    BUTTRESS_RETURN_IF_ERROR(CopyCheckpoint());
    BUTTRESS_RETURN_IF_ERROR(CopySegments());
    BUTTRESS_RETURN_IF_ERROR(Add("config.yaml"));
    for (const char* name : {"steps.jsonl", "eval_before.json", "versions.json"}) {
      std::error_code ignored;
      if (fs::exists(JoinPath(folder_, name), ignored)) BUTTRESS_RETURN_IF_ERROR(Add(name));
    }
    return BackupSummary{run_.run_name, run_.committed_step, run_.checkpoint_step,
                         static_cast<std::int64_t>(files_.size()), bytes_};
  }

  Status WriteList() const {
    nlohmann::ordered_json json = {{"format", kBackupFormat},
                                   {"run", run_.run_name},
                                   {"committed_step", run_.committed_step},
                                   {"checkpoint_step", run_.checkpoint_step}};
    for (const auto& [name, file] : files_) {
      json["files"].push_back(
          {{"name", name}, {"bytes", file.bytes}, {"sha256", ToHex(file.sha256)}});
    }
    return WriteFileAtomic(In(kListName), json.dump(2) + "\n");
  }

 private:
  std::string In(const std::string& name) const { return JoinPath(part_, name); }

  void PinSegments() {
    const auto sizes = SegmentSizes(JoinPath(folder_, "payloads"));
    if (!sizes.ok()) return;
    for (const auto& [segment, size] : *sizes) {
      if (segments_.contains(segment)) continue;
      auto file = OpenForCopy(SegmentPath(JoinPath(folder_, "payloads"), segment));
      if (file.ok()) segments_.emplace(segment, *std::move(file));
    }
  }

  Status AddCopy(const std::string& name, std::ifstream& from, std::uint64_t limit = kWholeFile) {
    BUTTRESS_ASSIGN_OR_RETURN(const CopiedFile file, CopyFile(from, In(name), limit));
    bytes_ += static_cast<std::int64_t>(file.bytes);
    files_[name] = file;
    return OkStatus();
  }

  Status Add(const std::string& name) {
    BUTTRESS_ASSIGN_OR_RETURN(std::ifstream from, OpenForCopy(JoinPath(folder_, name)));
    return AddCopy(name, from);
  }

  Status AddLedgerAndRead() {
    {
      BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(In("ledger.db")));
      BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader->Run());
      if (!run)
        return FailedPrecondition(folder_ + ": the coordinator has not started the run yet");
      run_ = *run;
      BUTTRESS_ASSIGN_OR_RETURN(end_, reader->EndOfPayloads());
      BUTTRESS_ASSIGN_OR_RETURN(archives_, reader->Archives());
    }
    BUTTRESS_ASSIGN_OR_RETURN(std::ifstream copy, OpenForCopy(In("ledger.db")));
    files_["ledger.db"] = HashAndCopy(copy, kWholeFile, nullptr);
    bytes_ += static_cast<std::int64_t>(files_["ledger.db"].bytes);
    return OkStatus();
  }

  Status CopyArchives() {
    for (const ArchiveRow& row : archives_) {
      const fs::path name = ArchivePath("ledger.db", row.number);
      BUTTRESS_RETURN_IF_ERROR(Add(name.lexically_normal().string()));
    }
    return OkStatus();
  }

  // The newest checkpoint exists until two newer ones are complete.
  Status CopyCheckpoint() {
    if (run_.checkpoint_step == 0) return OkStatus();
    const std::string name = "checkpoint/step-" + std::to_string(run_.checkpoint_step);
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(JoinPath(folder_, name), error))
      names.push_back(JoinPath(name, entry.path().filename().string()));
    if (error) return NotFound(JoinPath(folder_, name) + ": " + error.message());
    std::map<std::string, std::ifstream> pinned;
    for (const std::string& file : names) {
      BUTTRESS_ASSIGN_OR_RETURN(std::ifstream from, OpenForCopy(JoinPath(folder_, file)));
      pinned.emplace(file, std::move(from));
    }
    for (auto& [file, from] : pinned) BUTTRESS_RETURN_IF_ERROR(AddCopy(file, from));
    return OkStatus();
  }

  // What follows the last record that the ledger names was not acknowledged.
  Status CopySegments() {
    for (auto& [segment, from] : segments_) {
      if (segment > end_.segment) break;
      const std::string path = SegmentPath("payloads", segment);
      const std::uint64_t limit = segment == end_.segment ? end_.offset : kWholeFile;
      BUTTRESS_RETURN_IF_ERROR(AddCopy(path, from, limit));
    }
    return OkStatus();
  }

  const std::string folder_;
  const std::string part_;
  std::map<std::uint64_t, std::ifstream> segments_;
  std::map<std::string, CopiedFile> files_;
  std::int64_t bytes_ = 0;
  RunRow run_;
  PayloadEnd end_;
  std::vector<ArchiveRow> archives_;
};

Result<BackupSummary> CopyOnce(const std::string& folder, const std::string& part) {
  Copier copier(folder, part);
  BUTTRESS_ASSIGN_OR_RETURN(BackupSummary summary, copier.Copy());
  BUTTRESS_ASSIGN_OR_RETURN(const RunAudit audit, AuditRun(part));
  const std::vector<std::string> violations = audit.ledger.violations();
  if (!violations.empty()) {
    return DataLoss(
        fmt::format("the copy is not whole: {} ({} findings); `buttress ledger audit "
                    "{}` says what the run itself has lost",
                    violations.front(), violations.size(), folder));
  }
  BUTTRESS_RETURN_IF_ERROR(copier.WriteList());
  return summary;
}

struct ListedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // hex
};

struct BackupList {
  BackupSummary summary;
  std::vector<ListedFile> files;
};

// A name is relative and stays in the folder.
bool IsInside(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  return !name.empty() && path.is_relative() && *path.begin() != "..";
}

Result<BackupList> ReadList(const std::string& backup) {
  const std::string path = JoinPath(backup, kListName);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  BackupList list;
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("format") != kBackupFormat) return InvalidArgument(path + " has another format");
    list.summary = {json.at("run"), json.at("committed_step"), json.at("checkpoint_step"), 0, 0};
    for (const auto& file : json.at("files")) {
      list.files.push_back({file.at("name"), file.at("bytes"), file.at("sha256")});
      if (!IsInside(list.files.back().name))
        return DataLoss(path + " names the file " + list.files.back().name);
    }
  } catch (const nlohmann::json::exception& error) {
    return DataLoss(path + ": " + error.what());
  }
  return list;
}

// Sets local.out in the configuration of the restored run.
Status MoveConfig(const std::string& part, const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(StoredConfigPath(part), {}));
  config.local.out = fs::absolute(folder).lexically_normal().string();
  return WriteFileAtomic(StoredConfigPath(part), PrintRunConfig(config));
}

}  // namespace

Result<BackupSummary> BackUpRun(const std::string& folder, const std::string& target) {
  BUTTRESS_RETURN_IF_ERROR(CheckIsNew(target));
  const std::string part = target + ".part";
  Result<BackupSummary> summary = CopyOnce(folder, part);
  for (int attempt = 1; attempt < kAttempts && !summary.ok(); ++attempt) {
    const StatusCode code = summary.status().code();
    if (code != StatusCode::kNotFound && code != StatusCode::kDataLoss) break;
    summary = CopyOnce(folder, part);
  }
  if (!summary.ok()) {
    std::error_code ignored;
    fs::remove_all(part, ignored);
    return summary.status();
  }
  BUTTRESS_RETURN_IF_ERROR(PublishFolder(part, target));
  return summary;
}

Result<BackupSummary> RestoreRun(const std::string& backup, const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(CheckIsNew(folder));
  BUTTRESS_ASSIGN_OR_RETURN(BackupList list, ReadList(backup));
  const std::string part = folder + ".part";
  BUTTRESS_RETURN_IF_ERROR(MakeEmpty(part));
  for (const ListedFile& file : list.files) {
    BUTTRESS_ASSIGN_OR_RETURN(std::ifstream from, OpenForCopy(JoinPath(backup, file.name)));
    BUTTRESS_ASSIGN_OR_RETURN(const CopiedFile copied, CopyFile(from, JoinPath(part, file.name)));
    if (copied.bytes != file.bytes || ToHex(copied.sha256) != file.sha256) {
      return DataLoss(JoinPath(backup, file.name) +
                      " is not what was backed up; use another backup");
    }
    ++list.summary.files;
    list.summary.bytes += static_cast<std::int64_t>(copied.bytes);
  }
  BUTTRESS_RETURN_IF_ERROR(MoveConfig(part, folder));
  BUTTRESS_RETURN_IF_ERROR(PublishFolder(part, folder));
  return list.summary;
}

namespace {

struct CopyFlags {
  std::string from;
  std::string to;
  bool json = false;
};

void Print(const CopyFlags& flags, const BackupSummary& summary, const std::string& next) {
  if (flags.json) {
    return PrintJson({{"run", summary.run_name},
                      {"committed_step", summary.committed_step},
                      {"checkpoint_step", summary.checkpoint_step},
                      {"files", summary.files},
                      {"bytes", summary.bytes}});
  }
  fmt::print("{}: run {}, trained to step {}, checkpoint of step {}; {} files, {} bytes\n{}\n",
             flags.to, summary.run_name, summary.committed_step, summary.checkpoint_step,
             summary.files, summary.bytes, next);
}

Status BackUp(const CopyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const BackupSummary summary, BackUpRun(flags.from, flags.to));
  Print(flags, summary, "restore it with: buttress restore " + flags.to + " DIR");
  return OkStatus();
}

Status Restore(const CopyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const BackupSummary summary, RestoreRun(flags.from, flags.to));
  Print(flags, summary, "continue with: buttress launch " + flags.to + "/config.yaml");
  return OkStatus();
}

}  // namespace

std::function<Status()> AddBackup(CLI::App& app) {
  const auto flags = std::make_shared<CopyFlags>();
  app.add_option("dir", flags->from, "run folder; the run may be running")->required();
  app.add_option("target", flags->to, "folder to make; it must not exist")->required();
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return BackUp(*flags); };
}

std::function<Status()> AddRestore(CLI::App& app) {
  const auto flags = std::make_shared<CopyFlags>();
  app.add_option("backup", flags->from, "folder that `buttress backup` made")->required();
  app.add_option("dir", flags->to, "run folder to make; it must not exist")->required();
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return Restore(*flags); };
}

}  // namespace buttress
