// <out>/versions.json: what each start of a run was made of: programs, libraries, machine, start
// model, datasets and files of reward functions, with their SHA-256. The coordinator writes it,
// however it was started.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// The files whose digests are recorded, by the part of the run that they are: "programs", "model"
// (weights and tokenizer) and "data". A folder stands for the files in it, kMostFiles at most.
struct RecordedFiles {
  static constexpr std::size_t kMostFiles = 1024;

  std::vector<std::string> programs, model, data;

  static RecordedFiles Of(const RunConfig& config);
};

// Adds a start to the file, which keeps the first and the newest hundred: at once with what is
// known, and the digests as they are computed, on a thread of its own and at low priority. A file
// that has the path, size and time of change of one of the start before is not read again. Errors
// are logged; the run does without the record.
class VersionsRecord {
 public:
  VersionsRecord(const RunConfig& config, RecordedFiles files);

  // Ends the thread, within a megabyte of reading; digests that are missing stay null.
  ~VersionsRecord();

  VersionsRecord(const VersionsRecord&) = delete;
  VersionsRecord& operator=(const VersionsRecord&) = delete;

  // Waits until every digest is recorded.
  void Finish();

 private:
  void Run();
  bool Hash(nlohmann::ordered_json& file);
  Status Write();

  const std::string path_;
  nlohmann::ordered_json record_;  // of all starts; of the thread once it runs
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace buttress
