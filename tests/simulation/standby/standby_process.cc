#include "tests/simulation/standby/standby_process.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "tests/simulation/plants.h"

namespace buttress::simulation {

StandbyProcess::StandbyProcess(World& world, CoordinatorNode& node)
    : world_(world),
      node_(node),
      dice_(world.seed(), "standby"),
      disk_(world.seed(), folder_path_.path(), Planted(Plant::kStandbySyncMissing)) {
  node_.OnRecords([this](bool dies) {
    if (!linked_) return;
    if (!dies) return PlanPull();
    // What its thread has sent before the process dies arrives.
    for (std::uint64_t records = dice_.Below(20); records > 0 && TakeRecord(); --records) continue;
    world_.After(dice_.Between(1, 200), process_, [this, link = link_] {
      if (link == link_) Break();
    });
  });
}

StandbyProcess::~StandbyProcess() { node_.OnRecords(nullptr); }

void StandbyProcess::Start() {
  process_ = std::make_shared<Process>(Process{"standby"});
  auto folder = StandbyFolder::Open(disk_.folder());
  if (!folder.ok()) return world_.Fail("the standby cannot start: " + folder.status().ToString());
  folder_.emplace(*std::move(folder));
  Connect();
}

void StandbyProcess::Stop() {
  if (process_) process_->alive = false;
  ++link_;
  if (std::exchange(linked_, false)) node_.DetachStandby(id_);
  folder_.reset();
}

void StandbyProcess::StartSoon() {
  world_.After(dice_.Between(100, 1500), nullptr, [this] {
    if (!folder_) Start();
  });
}

void StandbyProcess::Kill() {
  Stop();
  disk_.disk().Restart();
  StartSoon();
}

void StandbyProcess::FailPower() {
  Stop();
  disk_.FailPower();
  StartSoon();
}

void StandbyProcess::Cut(std::int64_t ms) {
  cut_until_ms_ = world_.now_ms() + ms;
  if (linked_) Break();
}

void StandbyProcess::Heal() {
  cut_until_ms_ = 0;
  damages_next_ = false;
  if (!disk_.disk().killed()) disk_.disk().KillAfter(std::uint64_t{1} << 60);
}

void StandbyProcess::Connect() {
  world_.After(dice_.Between(20, 300), process_, [this] { TryConnect(); });
}

void StandbyProcess::TryConnect() {
  if (linked_) return;
  if (IsCut() || node_.mirror() == nullptr) return Connect();
  const Status begun = folder_->Begin(node_.mirror()->run_id());
  if (!begun.ok()) {
    world_.Tell("standby: {}", begun.ToString());
    return Kill();
  }
  node_.disk().ShowDatabase();
  id_ = node_.mirror()->Attach();
  start_ = node_.place().start;
  linked_ = true;
  ++link_;
  arrives_ms_ = 0;
  world_.Count("standby connected");
  PlanPull();
}

void StandbyProcess::Break() {
  world_.Tell("standby: the connection ends");
  ++link_;
  linked_ = false;
  if (start_ == node_.place().start) node_.DetachStandby(id_);
  Connect();
}

// Records are taken by a thread of the coordinator's process.
void StandbyProcess::PlanPull() {
  if (std::exchange(pull_planned_, true)) return;
  world_.After(dice_.Between(0, 1), nullptr, [this] {
    pull_planned_ = false;
    if (linked_) Pull();
  });
}

void StandbyProcess::Pull() {
  for (int records = 0; records < 8; ++records)
    if (!TakeRecord()) return;
  PlanPull();
}

bool StandbyProcess::TakeRecord() {
  if (node_.mirror() == nullptr || start_ != node_.place().start) return false;
  v1::FollowResponse record;
  if (!folder_->level()) node_.disk().ShowDatabase();
  const auto next = node_.mirror()->Take(id_, std::chrono::milliseconds(0), record);
  if (next == Mirror::Next::kReplaced) Break();
  if (next != Mirror::Next::kRecord) return false;
  if (!record.data().empty() && std::exchange(damages_next_, false)) {
    (*record.mutable_data())[dice_.Below(record.data().size())] ^= 0x10;
    world_.Count("a record for the standby was damaged");
  }
  arrives_ms_ = std::max(arrives_ms_, world_.now_ms() + dice_.Between(1, 10));
  world_.After(arrives_ms_ - world_.now_ms(), process_, [this, link = link_, record] {
    if (link == link_) Receive(record);
  });
  return true;
}

void StandbyProcess::Receive(const v1::FollowResponse& record) {
  const auto confirms = folder_->Apply(record);
  if (disk_.disk().killed()) {
    world_.Tell("standby: killed in a write");
    return dice_.Chance(50) ? Kill() : FailPower();
  }
  if (!confirms.ok()) {
    world_.Tell("standby: {}", confirms.status().ToString());
    return Break();
  }
  if (!*confirms) return;
  place_ = {start_, record.offset()};
  if (record.operation() == v1::FILE_OPERATION_LEVEL) world_.Count("standby was level");
  world_.After(dice_.Between(1, 10), node_.process(),
               [this, link = link_, place = place_, number = record.number()] {
                 if (link != link_ || node_.mirror() == nullptr) return;
                 node_.mirror()->Confirm(id_, number);
                 node_.StandbyHas(place);
               });
}

std::optional<StandbyProcess::Copy> StandbyProcess::Promote(bool power_fails) {
  Stop();
  power_fails ? disk_.FailPower() : disk_.disk().Restart();
  if (const Status may = PrepareToPromote(disk_.folder()); !may.ok()) {
    world_.Tell("operator: {}", may.message());
    StartSoon();
    return std::nullopt;
  }
  const Status promoted = buttress::Promote(disk_.folder());
  world_.Expect(promoted.ok(), "a copy that is whole can be promoted");
  return Copy{disk_.Files(), place_};
}

void StandbyProcess::PromoteAlive() {
  if (!folder_) return;
  world_.Expect(!PrepareToPromote(disk_.folder()).ok(),
                "the folder of a living standby is its own");
}

void StandbyProcess::StartEmpty() {
  disk_.Clear();
  place_ = {};
  Start();
}

}  // namespace buttress::simulation
