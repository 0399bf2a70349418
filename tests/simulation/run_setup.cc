#include "tests/simulation/run_setup.h"

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress::simulation {
namespace {

// Few prompts, so that groups of one prompt meet.
struct Prompts {
  TempDir folder;
  ByteTokenizer tokenizer;
  RunSettings run;
  std::optional<PromptSet> set;

  explicit Prompts(bool sources) {
    for (int file = 0; file < 2; ++file) {
      std::string lines;
      for (int row = 0; row < 3 - file; ++row)
        lines += fmt::format(R"({{"prompt": "{}{}", "answer": "1"}})", file == 0 ? "a" : "b", row) +
                 "\n";
      const std::string path = JoinPath(folder.path(), fmt::format("{}.jsonl", file));
      BUTTRESS_CHECK(WriteFileAtomic(path, lines).ok(), "the prompts are written");
      if (sources) {
        run.data.sources[file == 0 ? "first" : "second"].prompts = path;
      } else if (file == 0) {
        run.data.prompts = path;
      }
    }
    set = *PromptSet::Open(run, tokenizer);
  }
};

const Prompts& PromptsOf(bool sources) {
  static const Prompts one(false), two(true);
  return sources ? two : one;
}

}  // namespace

std::size_t WorkersOf(std::uint64_t seed) {
  Dice dice(seed, "workers");
  return 1 + dice.Below(3);
}

bool IsRepeatable(const RunSetup& setup) {
  return setup.options.deterministic && !setup.options.resample &&
         setup.options.selection.mode == SelectionMode::kNone;
}

RunSetup MakeSetup(std::uint64_t seed) {
  Dice dice(seed, "setup");
  const Prompts& prompts = PromptsOf(dice.Chance(50));
  RunSetup setup;
  setup.prompts = &*prompts.set;
  setup.run = prompts.run;
  setup.run.seed = seed;
  setup.run.sampling.group_size = dice.Between(1, 3);
  SchedulerOptions& options = setup.options;
  options.run_name = "simulated";
  options.config_sha256 = "c0ffee";
  options.new_run_id = "run-of-a-simulation";
  options.sources = PromptMix::NewSources(*setup.prompts);
  options.steps = 2 + dice.Below(5);
  options.prompts = dice.Between(1, 3);
  options.max_age = dice.Between(0, 2);
  options.window = dice.Between(1, 4);
  options.lease_ms = dice.Between(2000, 6000);
  options.lease_limit_ms = dice.Chance(50) ? 20000 : 600000;
  options.max_attempts = dice.Between(1, 4);
  options.deterministic = options.max_age == 0 && dice.Chance(50);
  options.old_tokens = static_cast<OldTokens>(dice.Below(3));
  options.resample = dice.Chance(40);
  options.replace_cap = options.prompts * dice.Between(1, 3);
  options.replace_budget = dice.Chance(50) ? 0 : dice.Between(1, 10);
  options.selection.mode = dice.Chance(40) ? SelectionMode::kGreso : SelectionMode::kNone;
  setup.run.data.selection = options.selection;
  setup.terms.config_sha256 = "c0ffee";
  setup.terms.seed = seed;
  setup.terms.sampling.max_tokens = 16;
  setup.terms.controls.per_step = 0;
  setup.terms.controls.prompts = options.prompts;
  setup.terms.check_max_age = [](std::int64_t) { return OkStatus(); };
  setup.terms.max_hold_ms = options.lease_ms / 3;
  setup.segment_bytes = 1024 << dice.Below(4);
  setup.keep_payloads = dice.Chance(30);
  setup.checkpoint_interval = dice.Between(1, 3);
  setup.partial_ms = options.deterministic || dice.Chance(50) ? 0 : dice.Between(200, 2000);
  setup.mask_old = options.old_tokens == OldTokens::kMask;
  if (dice.Chance(50))
    setup.standby = dice.Chance(50) ? StandbyMode::kSynchronous : StandbyMode::kAsynchronous;
  if (dice.Chance(50)) {
    setup.archive_steps = 1 + dice.Below(2);
    setup.ended_tags = 1 + dice.Below(6);
  }
  return setup;
}

}  // namespace buttress::simulation
