// The files of the learner's checkpoints: <folder>/step-<N>/checkpoint.json, which names the run,
// the step, the learner epoch and the hash of the configuration, and lists the size and SHA-256 of
// the other files. learner/output/checkpoint.h writes and loads them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"

namespace buttress {

inline constexpr char kCheckpointStateName[] = "checkpoint.json";
inline constexpr std::int64_t kMaxCheckpointStateBytes = 1 << 26;

// Returns the steps that have a checkpoint in `folder`, newest first.
std::vector<std::int64_t> CheckpointSteps(const std::string& folder);

// Returns <folder>/step-<N>.
std::string CheckpointFolderOf(const std::string& folder, std::int64_t step);

// Returns the 32 bytes of a SHA-256 of 64 hexadecimal digits; nullopt for any other text.
std::optional<std::string> Sha256FromHex(const std::string& hex);

// Reads the list "files" of a checkpoint.json. kDataLoss names what is wrong with it.
Result<std::vector<WeightFile>> ParseCheckpointFiles(const nlohmann::json& state);

// What tells one checkpoint from another.
struct CheckpointIdentity {
  std::string run_id;
  std::int64_t step = 0;
  std::uint64_t learner_epoch = 0;  // of the learner that wrote it
  std::string digest;               // SHA-256 of checkpoint.json, 32 bytes
  std::vector<WeightFile> files;    // the others
};

// Reads the checkpoint in `checkpoint_folder` and checks the size and digest of every file.
// kDataLoss or kNotFound says what is damaged.
Result<CheckpointIdentity> VerifyCheckpoint(const std::string& checkpoint_folder);

}  // namespace buttress
