#include "lib/collectives/liveness.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/heartbeat_channel.h"
#include "lib/collectives/launcher.h"

namespace buttress {
namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kPollMs = 50;
constexpr std::size_t kAddressesMax = 16;
constexpr std::size_t kStrangersMax = 64;

// What rank 0 broadcasts, as it is in memory.
struct Invitation {
  HeartbeatKey key{};
  std::uint16_t port = 0;                    // 0: rank 0 has none
  std::uint32_t addresses[kAddressesMax]{};  // network order; 0: none
};

// The rank that is gone, if one is, and the error of collectives that wait for it.
class GoneRank {
 public:
  bool gone() const { return gone_; }

  // Only the first rank counts: the others leave because of it.
  void SetGone(int rank, std::int32_t silent_ms) {
    const MutexLock lock(mutex_);
    if (gone_) return;
    rank_ = rank;
    silent_ms_ = silent_ms;
    gone_ = true;
  }

  Heartbeat AsMessage(const HeartbeatKey& key) const {
    const MutexLock lock(mutex_);
    return {key, HeartbeatKind::kGone, rank_, silent_ms_};
  }

  std::string Text() const {
    const MutexLock lock(mutex_);
    return silent_ms_ < 0 ? fmt::format("rank {} is gone: its connection was closed", rank_)
                          : fmt::format("rank {} is gone: silent for {} ms", rank_, silent_ms_);
  }

 private:
  std::atomic<bool> gone_{false};
  mutable Mutex mutex_;
  std::int32_t rank_ GUARDED_BY(mutex_) = 0;
  std::int32_t silent_ms_ GUARDED_BY(mutex_) = -1;
};

// A peer as the thread sees it.
struct Peer {
  std::optional<HeartbeatChannel> channel;  // closed once the peer is gone or has left
  SteadyClock::time_point heard = SteadyClock::now();
  bool left = false;  // said goodbye
};

class Heartbeats final : public Liveness {
 public:
  Heartbeats(LivenessOptions options, HeartbeatKey key, int rank)
      : options_(std::move(options)), key_(key), rank_(rank) {}

  ~Heartbeats() override { Join(); }

  void Leave() override {
    Join();
    SendAll(HeartbeatKind::kGoodbye);
  }

  // Rank 0 hears from all ranks.
  void Lead(Socket listener, int ranks) {
    listener_ = std::move(listener);
    for (int rank = 1; rank < ranks; ++rank) peers_.emplace_back();
    thread_ = std::thread([this] { Run(); });
  }

  // The other ranks hear from rank 0, and through it of the others.
  void Follow(HeartbeatChannel leader) {
    peers_.emplace_back().channel.emplace(std::move(leader));
    thread_ = std::thread([this] { Run(); });
  }

  Status MayWait(std::string_view what, Milliseconds waited) const override {
    if (gone_rank_.gone()) return Unavailable(fmt::format("{}: {}", what, gone_rank_.Text()));
    if (waited < options_.stuck) return OkStatus();
    return DeadlineExceeded(
        fmt::format("{}: not done after {} ms, and every rank is alive; one of them is stuck", what,
                    waited.count()));
  }

 private:
  void Run() {
    SteadyClock::time_point next_beat = SteadyClock::now();
    while (!stop_.stopped()) {
      if (SteadyClock::now() >= next_beat) {
        next_beat = SteadyClock::now() + options_.beat;
        SendAll(HeartbeatKind::kBeat);
      }
      Poll();
      if (listener_.fd() >= 0) TakeStrangers();
      for (std::size_t i = 0; i < peers_.size(); ++i) Hear(RankOf(i), peers_[i]);
    }
  }

  void Join() {
    stop_.Stop();
    if (thread_.joinable()) thread_.join();
  }

  // A follower's only peer is rank 0.
  int RankOf(std::size_t peer) const { return rank_ == 0 ? static_cast<int>(peer) + 1 : 0; }

  void SendAll(HeartbeatKind kind) {
    const bool tell = rank_ == 0 && kind == HeartbeatKind::kBeat && gone_rank_.gone();
    const Heartbeat message = tell ? gone_rank_.AsMessage(key_) : Heartbeat{key_, kind, rank_, -1};
    for (const Peer& peer : peers_) {
      if (peer.channel) peer.channel->Send(message);
    }
  }

  // Waits until there is something to read.
  void Poll() {
    std::vector<pollfd> ready;
    if (listener_.fd() >= 0) ready.push_back({listener_.fd(), POLLIN, 0});
    for (const HeartbeatChannel& stranger : strangers_) ready.push_back({stranger.fd(), POLLIN, 0});
    for (const Peer& peer : peers_) {
      if (peer.channel) ready.push_back({peer.channel->fd(), POLLIN, 0});
    }
    ::poll(ready.data(), ready.size(), kPollMs);
  }

  // Accepts connections; one becomes a rank's with its first message, if that has the key.
  void TakeStrangers() {
    while (auto stranger = AcceptHeartbeats(listener_)) {
      if (strangers_.size() >= kStrangersMax) strangers_.erase(strangers_.begin());
      strangers_.push_back(*std::move(stranger));
    }
    std::erase_if(strangers_, [this](HeartbeatChannel& stranger) {
      bool closed = false;
      const std::optional<Heartbeat> first = stranger.Receive(closed);
      if (!first) return closed;
      if (first->key == key_ && first->rank >= 1 &&
          static_cast<std::size_t>(first->rank) <= peers_.size()) {
        Peer& peer = peers_[static_cast<std::size_t>(first->rank) - 1];
        peer.channel.emplace(std::move(stranger));
        peer.heard = SteadyClock::now();
        peer.channel->Send({key_, HeartbeatKind::kBeat, rank_, -1});
      }
      return true;
    });
  }

  // Reads what a peer sent, and finds whether it is gone.
  void Hear(int rank, Peer& peer) {
    bool closed = false;
    while (peer.channel) {
      const std::optional<Heartbeat> message = peer.channel->Receive(closed);
      if (!message) break;
      if (message->key != key_) continue;
      peer.heard = SteadyClock::now();
      if (message->kind == HeartbeatKind::kGoodbye) peer.left = true;
      if (message->kind == HeartbeatKind::kGone)
        gone_rank_.SetGone(message->rank, message->silent_ms);
    }
    if (closed) peer.channel.reset();
    if (peer.left) return;
    const auto silent = std::chrono::duration_cast<Milliseconds>(SteadyClock::now() - peer.heard);
    if (closed) gone_rank_.SetGone(rank, -1);
    if (silent > options_.silence)
      gone_rank_.SetGone(rank, static_cast<std::int32_t>(silent.count()));
    if (closed && rank_ == 0) SendAll(HeartbeatKind::kBeat);  // tells the others at once
  }

  const LivenessOptions options_;
  const HeartbeatKey key_;
  const int rank_;
  GoneRank gone_rank_;
  StopSignal stop_;
  std::thread thread_;
  // Of the thread while it runs.
  Socket listener_;                          // rank 0
  std::vector<HeartbeatChannel> strangers_;  // rank 0
  std::vector<Peer> peers_;                  // rank 0: ranks 1 ...; another: rank 0
};

// Tries the addresses until one answers with the key.
std::optional<HeartbeatChannel> JoinLeader(const Invitation& invitation, int rank,
                                           Milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  for (const std::uint32_t address : invitation.addresses) {
    if (address == 0 || SteadyClock::now() > deadline) break;
    std::optional<HeartbeatChannel> channel = ConnectForHeartbeats(address, invitation.port);
    if (!channel) continue;
    channel->Send({invitation.key, HeartbeatKind::kBeat, rank, -1});
    pollfd ready{channel->fd(), POLLIN, 0};
    bool closed = false;
    if (::poll(&ready, 1, static_cast<int>(timeout.count())) != 1) continue;
    const std::optional<Heartbeat> answer = channel->Receive(closed);
    if (answer && answer->key == invitation.key) return channel;
  }
  return std::nullopt;
}

// Of rank 0: opens the port. A port of 0 says that there is none.
Result<Socket> Invite(const LivenessOptions& options, bool one_machine, Invitation& invitation) {
  if (::getrandom(invitation.key.data(), invitation.key.size(), 0) !=
      static_cast<ssize_t>(invitation.key.size()))
    return Unavailable("key of heartbeats: no random numbers");
  const std::vector<std::uint32_t> addresses =
      one_machine ? std::vector<std::uint32_t>{htonl(INADDR_LOOPBACK)}
                  : AddressesOfMachine(options.interface);
  std::copy_n(addresses.begin(), std::min(addresses.size(), kAddressesMax), invitation.addresses);
  return ListenForHeartbeats(one_machine, invitation.port);
}

}  // namespace

Result<std::unique_ptr<Liveness>> StartLiveness(Collective& control,
                                                const LivenessOptions& options) {
  BUTTRESS_ASSIGN_OR_RETURN(const LocalPlace place, FindLocalPlace(control, options.silence));
  Invitation invitation;
  Result<Socket> listener = Socket();
  if (control.rank() == 0) listener = Invite(options, place.size == control.size(), invitation);
  BUTTRESS_RETURN_IF_ERROR(
      control.Broadcast({&invitation, sizeof invitation, DType::kUInt8}, 0)->Wait(options.silence));
  auto heartbeats = std::make_unique<Heartbeats>(options, invitation.key, control.rank());
  std::int64_t failed = 0;
  if (control.rank() == 0) {
    failed = listener.ok() ? 0 : 1;
    if (listener.ok()) heartbeats->Lead(*std::move(listener), control.size());
  } else if (auto leader = JoinLeader(invitation, control.rank(), options.silence)) {
    heartbeats->Follow(*std::move(leader));
  } else {
    failed = 1;
  }
  BUTTRESS_RETURN_IF_ERROR(
      control.AllReduceSum({&failed, 1, DType::kInt64})->Wait(2 * options.silence));
  if (failed == 0) return std::unique_ptr<Liveness>(std::move(heartbeats));
  return FailedPrecondition(
      listener.ok()
          ? fmt::format(
                "{} of {} ranks cannot open a TCP connection to rank 0; let the machines of "
                "the job connect to each other, or name their network with "
                "local.learner.interface",
                failed, control.size())
          : listener.status().message());
}

}  // namespace buttress
