// An episode that runs: what holds the conversation asks the policy, grades and ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/episodes/session.h"
#include "rollout_worker/openai/engine_hub.h"

namespace buttress {

// Thread-safe. Made by std::make_shared, because calls that are open hold it.
class LiveEpisode : public std::enable_shared_from_this<LiveEpisode> {
 public:
  // Receives the answer, or
  //   kInvalidArgument     the request cannot be encoded;
  //   kResourceExhausted   kMostCalls are open;
  //   kFailedPrecondition  the episode has ended, for example with this call, at a limit;
  //   kUnavailable         the engine has failed, and the episode with it.
  // On another thread or at once, and must not block.
  using Done = std::function<void(Result<PolicyAnswer>)>;

  static constexpr std::size_t kMostCalls = 16;  // open at once

  // Adds to `lost` the tokens that were sampled and that no episode has. REQUIRES: what `parts`
  // names, `hub` and `lost` outlive it and the calls that it has made.
  LiveEpisode(SampleRequest request, const SessionParts& parts, EngineHub& hub,
              std::atomic<std::int64_t>& lost);

  const SampleRequest& request() const { return request_; }

  // Asks the policy. Returns the index of the call; -1 if `done` has been called.
  std::int32_t Ask(const PolicyAsk& ask, Done done) EXCLUDES(mutex_);

  // Nobody waits for the answer to this call.
  void Leave(std::int32_t call) EXCLUDES(mutex_);

  // Ask, and waits for the answer until the time of the episode is over, which ends it.
  Result<PolicyAnswer> AskAndWait(const PolicyAsk& ask) EXCLUDES(mutex_);

  // Adds a reward to a turn, and says what the environment found in it.
  void Grade(std::int32_t turn, double reward, std::vector<std::string> tools,
             std::int32_t failed_tools) EXCLUDES(mutex_);

  // Gives the episode its reward, and adds one to its last turn. kInvalidArgument if no turn is
  // there, kFailedPrecondition if the episode is over.
  Status Reward(std::optional<double> reward, std::optional<double> turn_reward) EXCLUDES(mutex_);

  // Keeps why a request was refused. An agent may go on, or may not even say so.
  void NoteRefusal(const Status& why) EXCLUDES(mutex_);

  // Fails the episode if the policy has not answered, with what was refused last.
  void EndWithoutAnswer() EXCLUDES(mutex_);

  // Ends the episode, unless it has ended.
  void End(EpisodeEnd end, std::string failure = "") EXCLUDES(mutex_);

  // Nobody wants the episode.
  void Cancel() EXCLUDES(mutex_);

  // Whether it has ended. At a limit of answers, tokens or calls it may still get its reward.
  bool ended() const EXCLUDES(mutex_);
  // Whether nothing can be added: cancelled, or ended in another way than at such a limit.
  bool over() const EXCLUDES(mutex_);

  std::int32_t answers() const EXCLUDES(mutex_);

  // Milliseconds until run.env.timeout_ms; ends the episode and returns 0 if there are none.
  std::int64_t LeftMs() EXCLUDES(mutex_);

  // Returns the result of the sample, once. Calls that are open are lost.
  EngineResult Take() EXCLUDES(mutex_);

 private:
  void Sampled(PolicyCall call, EngineResult result, const Done& done) EXCLUDES(mutex_);
  Result<PolicyAnswer> FinishLocked(PolicyCall call, EngineResult result) REQUIRES(mutex_);
  bool OverLocked() const REQUIRES(mutex_);
  void CancelCalls() EXCLUDES(mutex_);

  const SampleRequest request_;
  const EnvConfig& env_;
  EngineHub& hub_;
  std::atomic<std::int64_t>& lost_;
  const std::int64_t deadline_ms_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Session session_ GUARDED_BY(mutex_);
  std::optional<double> reward_ GUARDED_BY(mutex_);
  // By index of the call, what the hub cancels it by: 0 until it is known.
  std::map<std::int32_t, std::uint64_t> open_ GUARDED_BY(mutex_);
  std::optional<EngineResult> engine_failure_ GUARDED_BY(mutex_);
  std::string refusal_ GUARDED_BY(mutex_);  // the last one
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool taken_ GUARDED_BY(mutex_) = false;
};

}  // namespace buttress
