#include "tests/unit/explain/simulated_run.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

constexpr int kSteps = 40;
constexpr int kOnset = 20;  // the last step before a fault begins
constexpr int kWords = 120;

struct Settings {
  int groups = 32;
  int size = 8;
  int between = 0;     // steps between visits of a prompt; 0: none returns
  double learned = 0;  // what the log-odds of all rates gain within the run
  bool logprobs = false;
  bool second = false;
  bool episodes = false;
};

bool OfEpisodes(Injected fault) {
  return fault == Injected::kFailingTool || fault == Injected::kUnreadable ||
         fault == Injected::kLoops || fault == Injected::kLimit;
}

class Simulation {
 public:
  Simulation(Injected fault, std::uint64_t seed) : fault_(fault), random_({seed, 7}) {
    const auto draw = [&](auto... values) {
      const int all[] = {values...};
      return all[random_.Below(sizeof...(values))];
    };
    settings_ = {.groups = draw(8, 16, 32),
                 .size = draw(4, 8, 16),
                 .between = draw(0, 5, 10),
                 .learned = 3 * random_.Uniform(),
                 .logprobs = random_.Uniform() < 0.5,
                 .second = random_.Uniform() < 0.5};
    if (fault == Injected::kFlaky) settings_.between = 5;
    if (fault == Injected::kLabelNoise) settings_.second = true;
    if (fault == Injected::kTooEasy || fault == Injected::kTooHard) settings_.learned = 0;
    salt_ = random_.Below(1'000'000);
    settings_.episodes =
        OfEpisodes(fault) || (fault == Injected::kNothing && UniformAt({salt_, 5}, 0) < 0.5);
  }

  std::vector<GroupFacts> Step(int step) {
    std::vector<GroupFacts> groups;
    for (int k = 0; k < settings_.groups; ++k) {
      const int visit = settings_.between == 0 ? step : step % settings_.between;
      groups.push_back(Group(step, visit * settings_.groups + k));
    }
    return groups;
  }

 private:
  // The rate of a prompt: from all but never to nearly always, and rising.
  double RateOf(int prompt, int step) const {
    const double u = UniformAt({salt_, 3}, static_cast<std::uint64_t>(prompt));
    if (fault_ == Injected::kTooEasy) return 0.97 + 0.03 * u;
    if (fault_ == Injected::kTooHard) return 0.02 * u;
    const double odds = -4 + 7 * u + settings_.learned * step / kSteps;
    return 1 / (1 + std::exp(-odds));
  }

  TextFacts Text() {
    TextFacts text = {.digest = 1 + random_.Below(1ULL << 62),
                      .words = kWords,
                      .length = 6 * kWords,
                      .ends_midway = false,
                      .sketch = {}};
    for (std::uint16_t& bin : text.sketch)
      bin = static_cast<std::uint16_t>(1 + random_.Below(65535));
    return text;
  }

  CompletionFacts Completion(double rate) {
    CompletionFacts c;
    right_ = random_.Uniform() < rate;
    c.tokens = static_cast<std::int32_t>(80 + random_.Below(200));
    c.truncated = random_.Uniform() < 0.01;
    c.text = Text();
    if (settings_.logprobs) c.logprob = -0.4 * *c.tokens;
    return c;
  }

  // A copy, or nearly one, of an earlier completion of the group, and whether that is right.
  void Repeat(const CompletionFacts& earlier, bool right, CompletionFacts& c) {
    c = earlier;
    right_ = right;
    if (fault_ == Injected::kDuplicates) return;
    c.text.digest = 1 + random_.Below(1ULL << 62);
    for (int i = 0; i < 3; ++i)
      c.text.sketch[random_.Below(c.text.sketch.size())] =
          static_cast<std::uint16_t>(1 + random_.Below(65535));
  }

  // Makes the completion an episode. What fails it makes it wrong.
  void AddEpisode(bool begun, CompletionFacts& c, GroupFacts& group) {
    const auto faulty = [&](Injected fault) { return begun && fault_ == fault; };
    const double fails = faulty(Injected::kFailingTool) ? 0.8 : 0.1;
    const double unreadable = faulty(Injected::kUnreadable) ? 0.8 : 0.025;
    const double repeats = faulty(Injected::kLoops) ? 0.8 : 0.05;
    EpisodeFacts& episode = c.episode.emplace();
    episode.turns = static_cast<std::int32_t>(2 + random_.Below(4));
    for (int turn = 1; turn < episode.turns; ++turn) {
      ++episode.calls;
      const bool read = random_.Uniform() >= unreadable;
      if (!read || random_.Uniform() < fails) {
        ++episode.failed_calls;
        ++group.failed_by_tool[read ? "search" : ""];
      }
      episode.repeated_answers += random_.Uniform() < repeats ? 1 : 0;
    }
    if (random_.Uniform() < (faulty(Injected::kLimit) ? 0.7 : 0.02))
      c.limit = "run.env.max_tool_calls";
    const bool failed = faulty(Injected::kFailingTool) || faulty(Injected::kUnreadable) ||
                        faulty(Injected::kLoops) || !c.limit.empty();
    right_ = right_ && (!failed || random_.Uniform() < 0.02);
  }

  GroupFacts Group(int step, int prompt) {
    GroupFacts group;
    group.step = step;
    group.prompt_id = "p" + std::to_string(prompt);
    group.source = prompt % 2 == 0 ? "a" : "b";
    const bool begun = step > kOnset;
    group.version_step = step - (fault_ == Injected::kStaleWeights && begun ? 20 : 1);
    const bool killed = (fault_ == Injected::kDeadVerifier && begun && group.source == "a") ||
                        (fault_ == Injected::kWrongFormat && group.source == "b") ||
                        (fault_ == Injected::kFlaky && random_.Uniform() < 0.2);
    const std::size_t own = !begun                              ? 1'000
                            : fault_ == Injected::kDuplicates   ? 2
                            : fault_ == Injected::kModeCollapse ? 1
                                                                : 1'000;
    std::vector<bool> rights;
    for (int i = 0; i < settings_.size; ++i) {
      CompletionFacts c = Completion(RateOf(prompt, step));
      const std::size_t earlier = static_cast<std::size_t>(i) % own;
      if (earlier < group.completions.size())
        Repeat(group.completions[earlier], rights[earlier], c);
      if (settings_.episodes) AddEpisode(begun, c, group);
      rights.push_back(right_);
      if (fault_ == Injected::kTruncation && begun) c.truncated = random_.Uniform() < 0.6;
      Score(killed, c);
      group.completions.push_back(c);
    }
    return group;
  }

  void Score(bool killed, CompletionFacts& c) {
    const bool cut = c.truncated.value_or(false);
    bool verdict = right_ && !cut && !killed;
    if (fault_ == Injected::kLabelNoise && random_.Uniform() < 0.15) verdict = !verdict;
    double reward = verdict ? 1 : 0;
    // A sum of parts in one order or another.
    if (fault_ == Injected::kFloatNoise && random_.Uniform() < 0.5) reward += 2e-8;
    c.SetRewards(reward);
    // The second verifier errs in 1 % of the cases. It reads what the first does not where the
    // format is wrong.
    if (settings_.second) c.states_truth = (right_ && !cut) != (random_.Uniform() < 0.01);
  }

  const Injected fault_;
  RandomStream random_;
  Settings settings_;
  std::uint64_t salt_ = 0;
  bool right_ = false;  // the newest completion
};

}  // namespace

Report SimulateRun(Injected fault, std::uint64_t seed) {
  Simulation simulation(fault, seed);
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (int step = 1; step <= kSteps; ++step) {
    const Status status = post_mortem.Add(simulation.Step(step));
    BUTTRESS_CHECK(status.ok(), "a simulated step is accepted");
  }
  return post_mortem.Finish();
}

}  // namespace buttress
