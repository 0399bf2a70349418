// Tests that the ledger has every change that it has acknowledged, and none in part, whatever
// happens to its process and its disk: whole runs, whose ledger is on a simulated disk, one for
// each seed. BUTTRESS_SEED=n runs one seed alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "lib/ledger/audit.h"
#include "lib/ledger/ledger.h"
#include "tests/property/run_simulation.h"
#include "tests/support/fakes/simulated_disk.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::uint64_t kSeeds = 400;
constexpr std::uint64_t kPlantedSeeds = 100;
constexpr int kEvents = 120;

// What is wrong on purpose, so that a test sees that it is found.
enum class Planted : std::uint8_t {
  kNothing,
  kSyncIgnored,
  kEarlyAcknowledgement,
  kUnsyncedStart,  // answers from what it found, without a write of its own
};

// A ledger whose writer is killed, whose disk fills, fails a sync and loses its power.
class CrashingLedger {
 public:
  CrashingLedger(std::uint64_t seed, Planted planted)
      : planted_(planted),
        random_({seed, HashText("faults")}),
        disk_(seed, planted == Planted::kSyncIgnored ? SimulatedDisk::Syncs::kIgnored
                                                     : SimulatedDisk::Syncs::kKeep) {
    Open();
  }

  void Write(const LedgerChanges& changes) {
    if (!failure_.empty()) return;
    const MemoryLedger before = model_;
    model_.Write(changes);
    if (faults_) ArmFault();
    Status written = ledger_->Write(changes);
    if (written.code() == StatusCode::kResourceExhausted) {
      disk_.SetCapacity(UINT64_MAX);
      written = ledger_->Write(changes);
    }
    disk_.SetCapacity(UINT64_MAX);
    const bool acknowledged = written.ok() || planted_ == Planted::kEarlyAcknowledgement;
    if (written.ok() && !disk_.killed() && !(faults_ && Chance(4))) return;
    Crash();
    const LedgerSnapshot found = Load();
    if (!failure_.empty()) return;
    if (found == model_.Load()) return WriteStart();
    if (acknowledged) return Fail("a change that was acknowledged is gone");
    if (found != before.Load()) return Fail("a change is there in part");
    if (!ledger_->Write(changes).ok()) Fail("what was not acknowledged cannot be written again");
  }

  void EndFaults() { faults_ = false; }

  // Returns what is wrong with the ledger after the run.
  std::string Examine() {
    if (!failure_.empty()) return failure_;
    if (Load() != model_.Load()) return "the ledger has another run";
    const auto audit = AuditLedger(*ledger_);
    if (!audit.ok()) return audit.status().ToString();
    return audit->violations().empty() ? "" : audit->violations().front();
  }

  const std::string& failure() const { return failure_; }

  const SimulatedDisk& disk() const { return disk_; }

 private:
  bool Chance(std::uint64_t percent) { return random_.Below(100) < percent; }

  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  void ArmFault() {
    if (Chance(6)) disk_.KillAfter(random_.Below(14));
    if (Chance(3)) disk_.FailSyncAfter(random_.Below(2));
    if (Chance(3)) disk_.SetCapacity(UsedBytes() + random_.Below(std::uint64_t{16} << 10));
  }

  std::uint64_t UsedBytes() {
    std::uint64_t bytes = 0;
    for (const auto& [name, file] : disk_.files()) bytes += file.seen.size();
    return bytes;
  }

  // A coordinator writes before it answers anyone. That syncs what it found, which another process
  // may have written and not synced.
  void WriteStart() {
    if (planted_ == Planted::kUnsyncedStart) return;
    LedgerChanges start;
    start.run = model_.run;
    if (!ledger_->Write(start).ok()) Fail("the start cannot be written");
  }

  // The process ends, or is killed while it ends or while the next one opens the ledger.
  void Crash() {
    for (bool again = true; again; again = faults_ && Chance(20)) {
      if (faults_ && Chance(40)) disk_.KillAfter(random_.Below(30));
      ledger_.reset();
      faults_&& Chance(50) ? disk_.FailPower() : disk_.Restart();
      if (faults_ && Chance(20)) {
        disk_.KillAfter(random_.Below(10));
        Ledger::Open(path_).status().IgnoreError();
        Chance(50) ? disk_.FailPower() : disk_.Restart();
      }
      Open();
      if (!failure_.empty()) return;
    }
  }

  void Open() {
    auto opened = Ledger::Open(path_);
    if (!opened.ok()) return Fail("the ledger does not open: " + opened.status().ToString());
    ledger_ = *std::move(opened);
  }

  LedgerSnapshot Load() {
    if (!failure_.empty()) return {};
    auto loaded = ledger_->Load();
    if (!loaded.ok()) Fail("the ledger does not load: " + loaded.status().ToString());
    return loaded.ok() ? *std::move(loaded) : LedgerSnapshot();
  }

  const Planted planted_;
  RandomStream random_;
  SimulatedDisk disk_;
  const TempDir folder_;  // of the lock
  const std::string path_ = folder_.path() + "/ledger.db";
  std::unique_ptr<Ledger> ledger_;
  MemoryLedger model_;
  bool faults_ = true;
  std::string failure_;
};

using Faults = std::array<std::int64_t, kDiskFaultNames.size()>;

// Returns what goes wrong with a seed; empty if nothing does. Adds the faults to `counts`.
std::string RunSeed(std::uint64_t seed, Planted planted, Faults& counts) {
  CrashingLedger ledger(seed, planted);
  RunSimulation simulation(seed, [&](const LedgerChanges& changes) { ledger.Write(changes); });
  for (int event = 0; event < kEvents && ledger.failure().empty(); ++event) simulation.Step();
  ledger.EndFaults();
  const bool ends = !ledger.failure().empty() || simulation.DriveToEnd();
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += ledger.disk().faults()[i];
  return ends ? ledger.Examine() : "the run does not end";
}

TEST(LedgerCrashProperty, WhatIsAcknowledgedSurvivesEveryFault) {
  Faults counts{};
  if (const char* given = std::getenv("BUTTRESS_SEED")) {
    EXPECT_EQ(RunSeed(std::strtoull(given, nullptr, 10), Planted::kNothing, counts), "");
    return;
  }
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_EQ(RunSeed(seed, Planted::kNothing, counts), "") << "replay with BUTTRESS_SEED=" << seed;
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_GT(counts[i], 0) << "never happened: " << kDiskFaultNames[i];
}

// The property above means nothing unless it would be seen to break.
TEST(LedgerCrashProperty, APlantedFaultIsFound) {
  using enum Planted;
  for (const Planted planted : {kSyncIgnored, kEarlyAcknowledgement, kUnsyncedStart}) {
    Faults counts{};
    bool found = false;
    for (std::uint64_t seed = 1; seed <= kPlantedSeeds && !found; ++seed)
      found = !RunSeed(seed, planted, counts).empty();
    EXPECT_TRUE(found) << "planted fault " << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace buttress
