// The process of the standby: the real folder of its copy, on a machine of its own, and the stream
// from the coordinator, which may break at any record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/standby/standby_folder.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/standby/standby_disk.h"
#include "tests/simulation/world.h"
#include "tests/support/temp_dir.h"

namespace buttress::simulation {

class StandbyProcess {
 public:
  StandbyProcess(World& world, CoordinatorNode& node);
  ~StandbyProcess();
  StandbyProcess(const StandbyProcess&) = delete;
  StandbyProcess& operator=(const StandbyProcess&) = delete;

  void Start();

  // The process dies, at once or in a write, or its machine loses power, and starts again.
  void Kill();

  void KillInWrite(std::uint64_t calls) { disk_.disk().KillAfter(calls); }

  void FailPower();

  // Nothing passes between it and the coordinator for so long.
  void Cut(std::int64_t ms);

  // A byte of the next record flips on its way.
  void DamageNext() { damages_next_ = true; }

  // Whatever was to befall it does not.
  void Heal();

  // What a coordinator finds on the standby's folder.
  struct Copy {
    FolderDisk::Copy files;
    LedgerPlace place;  // the last one that was confirmed
  };

  // Ends the process, and its power as well if `power_fails`. nullopt if nothing can be started on
  // its folder; otherwise the folder is that of a coordinator from now on.
  std::optional<Copy> Promote(bool power_fails);

  // Somebody starts a coordinator on its folder, which must be refused while the process runs.
  void PromoteAlive();

  // Begins again with an empty folder, after Promote.
  void StartEmpty();

 private:
  void Stop();
  void StartSoon();
  void Connect();
  void TryConnect();
  void Break();
  void PlanPull();
  void Pull();
  // Takes a record and sends it. Returns whether there was one.
  bool TakeRecord();
  void Receive(const v1::FollowResponse& record);

  bool IsCut() const { return cut_until_ms_ > world_.now_ms(); }

  World& world_;
  CoordinatorNode& node_;
  Dice dice_;
  const TempDir folder_path_;
  StandbyDisk disk_;
  ProcessPtr process_;
  std::optional<StandbyFolder> folder_;
  LedgerPlace place_;
  std::uint64_t link_ = 0;  // changes when the connection breaks
  bool linked_ = false;
  std::uint64_t id_ = 0;         // of Mirror::Attach
  std::uint64_t start_ = 0;      // of the coordinator
  std::int64_t arrives_ms_ = 0;  // the last record
  std::int64_t cut_until_ms_ = 0;
  bool pull_planned_ = false;
  bool damages_next_ = false;
};

}  // namespace buttress::simulation
