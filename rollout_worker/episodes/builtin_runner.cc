#include <utility>

#include "lib/base/text/random.h"
#include "rollout_worker/episodes/messages.h"
#include "rollout_worker/episodes/runner.h"

namespace buttress {
namespace {

class BuiltinRunner : public EpisodeRunner {
 public:
  BuiltinRunner(std::unique_ptr<EnvironmentFactory> factory, std::uint64_t run_seed)
      : factory_(std::move(factory)), run_seed_(run_seed) {}

  void Run(LiveEpisode& episode) override {
    const Status status = Converse(episode);
    if (!status.ok()) episode.End(EpisodeEnd::kFailed, status.message());
  }

 private:
  Status Converse(LiveEpisode& episode) {
    const SampleRequest& request = episode.request();
    BUTTRESS_ASSIGN_OR_RETURN(
        const std::unique_ptr<Environment> environment,
        factory_->Make(*request.task, MixSeed(run_seed_, request.id.group_id)));
    PolicyAsk ask{.messages = environment->messages(), .tools = environment->tools()};
    while (true) {
      BUTTRESS_ASSIGN_OR_RETURN(const PolicyAnswer answer, episode.AskAndWait(ask));
      if (episode.ended()) return OkStatus();
      BUTTRESS_ASSIGN_OR_RETURN(const EnvironmentReply reply,
                                environment->Reply(answer.message, episode.LeftMs()));
      episode.Grade(answer.turn, reply.turn_reward, reply.tools, reply.failed_tools);
      if (reply.reward) BUTTRESS_RETURN_IF_ERROR(episode.Reward(reply.reward, {}));
      if (episode.LeftMs() == 0 || reply.ended()) return OkStatus();
      ask.messages.push_back(MessageOf(answer.message));
      for (const nlohmann::ordered_json& message : reply.messages) ask.messages.push_back(message);
    }
  }

  const std::unique_ptr<EnvironmentFactory> factory_;
  const std::uint64_t run_seed_;
};

}  // namespace

std::unique_ptr<EpisodeRunner> MakeBuiltinRunner(std::unique_ptr<EnvironmentFactory> factory,
                                                 std::uint64_t run_seed) {
  return std::make_unique<BuiltinRunner>(std::move(factory), run_seed);
}

}  // namespace buttress
