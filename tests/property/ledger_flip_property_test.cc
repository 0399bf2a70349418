// Tests that a flipped bit of ledger.db or of its write-ahead log is found, or changes nothing that
// a start reads: whole runs, whose coordinator is killed, on a simulated disk, one for each seed.
// BUTTRESS_SEED=n runs one seed alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lib/ledger/checked_files.h"
#include "lib/ledger/checked_log.h"
#include "lib/ledger/ledger.h"
#include "tests/support/fakes/simulated_disk.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

constexpr std::uint64_t kSeeds = 120;
constexpr std::uint64_t kPlantedSeeds = 40;
constexpr std::uint64_t kMostSteps = 12;
constexpr int kFlips = 12;  // of a seed

// What is taken away on purpose, so that a test sees that it is needed.
enum class Planted : std::uint8_t {
  kNothing,
  kNewSeal,   // a page with a flipped bit has a right seal
  kNoMemory,  // of the transaction that was acknowledged last
  kNoLogEnd,  // memory of how long the log was
};

struct Counts {
  std::int64_t found = 0;
  std::int64_t harmless = 0;
  std::int64_t in_database = 0;
  std::int64_t in_log = 0;
};

// What a start reads.
struct Start {
  LedgerSnapshot snapshot;
  PayloadEnd payload_end;

  bool operator==(const Start&) const = default;
};

class KilledLedger {
 public:
  explicit KilledLedger(std::uint64_t seed)
      : random_({seed, HashText("flips")}), disk_(seed), ledger_(*Ledger::Open(path_)) {
    SchedulerOptions options = SmallRun();
    options.steps = kMostSteps;
    SchedulerRig rig(options, [this](const LedgerChanges& changes) { Write(changes); });
    rig.StartLearner({});
    rig.Announce(0);
    rig.Register("a", 1);
    const std::uint64_t steps = 1 + random_.Below(kMostSteps);
    for (std::uint64_t step = 1; step <= steps; ++step) {
      rig.RunStep(step);
      if (random_.Below(3) != 0) continue;
      EXPECT_TRUE(rig.Checkpoint(step).ok());
    }
    // Many die while the log is copied into the database.
    disk_.KillAfter(random_.Below(2) * random_.Below(60));
    ledger_.reset();
    disk_.Restart();
    files_ = disk_.files();
  }

  // Returns what a start reads, and leaves the files as they were.
  Result<Start> Read() {
    Result<Start> start = ReadFiles();
    disk_.Restart();
    disk_.files() = files_;
    return start;
  }

  // Flips a bit of the database or of the log, before a Read.
  void Flip(Planted planted, Counts& counts) {
    const std::string log = path_ + "-wal";
    const std::uint64_t pages = disk_.files()[path_].seen.size();
    const bool in_log = !disk_.files()[log].seen.empty() && (pages == 0 || random_.Below(2) == 0);
    std::string& bytes = disk_.files()[in_log ? log : path_].seen;
    const std::uint64_t place = random_.Below(bytes.size());
    bytes[place] = static_cast<char>(bytes[place] ^ (1 << random_.Below(8)));
    ++(in_log ? counts.in_log : counts.in_database);
    if (planted == Planted::kNoMemory) std::filesystem::remove(path_ + ".lock");
    if (planted == Planted::kNoLogEnd) RememberLogEnd(path_, {}, Lasts::kBeyondProcess);
    if (planted == Planted::kNewSeal && !in_log) Seal(bytes, place / kPageBytes);
  }

 private:
  void Write(const LedgerChanges& changes) {
    ASSERT_TRUE(ledger_->Write(changes).ok());
    if (random_.Below(40) != 0) return;
    ledger_.reset();  // copies the log into the database
    ledger_ = *Ledger::Open(path_);
  }

  Result<Start> ReadFiles() {
    BUTTRESS_ASSIGN_OR_RETURN(const auto ledger, Ledger::Open(path_));
    BUTTRESS_ASSIGN_OR_RETURN(LedgerSnapshot snapshot, ledger->Load());
    disk_.KillAfter(0);
    return Start{std::move(snapshot), ledger->payload_end()};
  }

  static void Seal(std::string& bytes, std::uint64_t page) {
    char* const begin = bytes.data() + page * kPageBytes;
    const std::uint32_t seal = SealOf(begin, static_cast<std::uint32_t>(page + 1));
    std::memcpy(begin + kPageBytes - kSealBytes, &seal, kSealBytes);
  }

  RandomStream random_;
  SimulatedDisk disk_;
  const TempDir folder_;  // of the lock
  const std::string path_ = folder_.path() + "/ledger.db";
  std::unique_ptr<Ledger> ledger_;
  std::map<std::string, SimulatedDisk::File> files_;  // at the kill
};

constexpr char kUnseen[] = "a flipped bit has changed what a start reads";

// Returns what goes wrong with a seed; empty if nothing does.
std::string RunSeed(std::uint64_t seed, Planted planted, Counts& counts) {
  KilledLedger ledger(seed);
  const Result<Start> expected = ledger.Read();
  if (!expected.ok()) return expected.status().ToString();
  for (int flip = 0; flip < kFlips; ++flip) {
    ledger.Flip(planted, counts);
    const Result<Start> start = ledger.Read();
    ++(start.ok() ? counts.harmless : counts.found);
    if (start.ok() && *start != *expected) return kUnseen;
    if (start.ok() || planted != Planted::kNothing) continue;
    const std::string& message = start.status().message();
    if (start.status().code() != StatusCode::kDataLoss ||
        message.find("/ledger.db") == std::string::npos ||
        message.find("restore a backup of the run") == std::string::npos)
      return start.status().ToString();
  }
  return "";
}

TEST(LedgerFlipProperty, AFlippedBitIsFoundOrChangesNothing) {
  Counts counts;
  if (const char* given = std::getenv("BUTTRESS_SEED")) {
    EXPECT_EQ(RunSeed(std::strtoull(given, nullptr, 10), Planted::kNothing, counts), "");
    return;
  }
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_EQ(RunSeed(seed, Planted::kNothing, counts), "") << "replay with BUTTRESS_SEED=" << seed;
  }
  EXPECT_GT(counts.in_database, kSeeds);
  EXPECT_GT(counts.in_log, kSeeds);
  EXPECT_GT(counts.found, kSeeds);
  EXPECT_GT(counts.harmless, 0);
}

// The property above means nothing unless it would be seen to break.
TEST(LedgerFlipProperty, ItNeedsTheSealsAndTheMemory) {
  for (const Planted planted : {Planted::kNewSeal, Planted::kNoMemory, Planted::kNoLogEnd}) {
    Counts counts;
    bool broken = false;
    for (std::uint64_t seed = 1; seed <= kPlantedSeeds && !broken; ++seed)
      broken = RunSeed(seed, planted, counts) == kUnseen;
    EXPECT_TRUE(broken) << "planted fault " << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace buttress
