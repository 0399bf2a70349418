// A ledger of a run that is far along, written through the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/report/status.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_config.h"
#include "lib/config/run_identity.h"
#include "lib/experience/episodes.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "lib/rl/prompt_selection.h"
#include "lib/weights/manifest.h"

namespace buttress {

inline constexpr std::uint64_t kStepsOfTransaction = 64;

class PastRun {
 public:
  PastRun(const RunConfig& config, const DatasetIdentity& dataset, Ledger& ledger,
          PayloadStore& payloads)
      : prompts_(static_cast<std::uint64_t>(config.run.batch.prompts)),
        selection_(config.run.data.selection),
        ledger_(ledger),
        payloads_(payloads) {
    run_.run_id = std::string(32, 'a');
    run_.run_name = config.run.name;
    run_.config_sha256 = RunIdentityHash(config);
    run_.sources = {{.name = {}, .dataset = dataset, .cursor = {}}};
    run_.coordinator_epoch = run_.learner_epoch = 1;
  }

  // With `archive_steps`, groups go to archives as in a run with that setting.
  Status Write(std::uint64_t steps, std::uint64_t archive_steps) {
    LedgerChanges changes;
    changes.starts = {{1, std::string(32, 'b')}};
    changes.learners = {{1, 0, "", 1, Sha256Of("secret")}};
    for (std::uint64_t step = 1; step <= steps; ++step) {
      BUTTRESS_RETURN_IF_ERROR(AddStep(step, changes));
      if (step == steps) changes.manifests = {Announced(step)};
      if (step % kStepsOfTransaction != 0 && step != steps) continue;
      changes.run = run_;
      changes.collapse["default"] = total_;
      BUTTRESS_RETURN_IF_ERROR(payloads_.Sync());
      BUTTRESS_RETURN_IF_ERROR(ledger_.Write(std::exchange(changes, {})));
      if (archive_steps > 0) BUTTRESS_RETURN_IF_ERROR(Archive(archive_steps));
    }
    return OkStatus();
  }

 private:
  Status Archive(std::uint64_t min_steps) {
    constexpr std::int64_t kAtOnce = 16384;
    for (std::int64_t archived = kAtOnce; archived == kAtOnce; min_steps = 0) {
      BUTTRESS_ASSIGN_OR_RETURN(archived, ledger_.Archive(min_steps, kAtOnce));
    }
    return OkStatus();
  }

  Status AddStep(std::uint64_t step, LedgerChanges& changes) {
    PlanRow plan;
    plan.step = step;
    for (std::uint64_t position = 0; position < prompts_; ++position) {
      const std::uint64_t id = run_.next_group_id++;
      BUTTRESS_RETURN_IF_ERROR(AddGroup(id, step, position, changes));
      plan.group_ids.push_back(id);
      plan.collapse.step.Add(ClassOf(*changes.accepted.back().head));
      total_.Add(ClassOf(*changes.accepted.back().head));
    }
    plan.collapse.cumulative = total_;
    changes.plans.push_back(std::move(plan));
    changes.commits.push_back({1, step});
    changes.checkpoints.push_back({1, step, Sha256Of("checkpoint")});
    run_.planned_step = run_.committed_step = run_.settled_step = step;
    run_.sources[0].cursor.index = run_.sources[0].cursor.drawn = run_.next_group_id - 1;
    return OkStatus();
  }

  // Two completions of 128 tokens.
  static v1::GroupHead HeadOf(std::uint64_t id, std::uint64_t step) {
    v1::GroupHead head;
    head.set_group_id(id);
    head.set_source("default");
    head.set_prompt_tokens(64);
    v1::PolicyVersion* version = head.add_versions();
    version->set_learner_epoch(1);
    version->set_step(step - 1);
    for (const bool correct : {id % 2 == 0, id % 3 == 0}) {
      head.add_outcomes(correct ? v1::OUTCOME_CORRECT : v1::OUTCOME_WRONG);
      head.add_finish_reasons(v1::FINISH_REASON_STOP);
      head.add_raw_rewards(correct ? 1 : 0);
      head.add_rewards(correct ? 1 : 0);
      head.add_lengths(128);
      head.add_trained_lengths(128);
      head.add_logprob_sums(-64);
      head.mutable_token_digests()->append(16, 'd');
      head.mutable_token_sketches()->append(64, 's');
    }
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    head.set_collapse(static_cast<v1::CollapseClass>(ClassifyGroup(raw_rewards, outcomes)));
    return head;
  }

  Status AddGroup(std::uint64_t id, std::uint64_t step, std::uint64_t position,
                  LedgerChanges& changes) {
    GroupRow group;
    group.group_id = id;
    group.prompt = {"prompt-" + std::to_string(id - 1), "default", 0, id - 1, 2};
    changes.groups.push_back(group);
    group.state = GroupState::kSettled;
    group.attempts = 1;
    group.lease_epoch = 1;
    group.worker_id = "w0";
    group.incarnation = 1;
    group.min_version = group.granted_version = {1, step - 1, ""};
    group.step = step;
    group.position = static_cast<std::uint32_t>(position);
    changes.groups.push_back(std::move(group));

    const std::string bytes = "group " + std::to_string(id);
    AcceptedGroup accepted;
    accepted.head = std::make_shared<const v1::GroupHead>(HeadOf(id, step));
    accepted.lease_epoch = 1;
    accepted.content_sha256 = Sha256Of(bytes);
    BUTTRESS_ASSIGN_OR_RETURN(accepted.payload, payloads_.Append({id, accepted.lease_epoch}, bytes,
                                                                 accepted.content_sha256));
    const v1::GroupHead& head = *accepted.head;
    changes.histories[id - 1] = OwnHistoryOf(head);
    if (selection_.mode != SelectionMode::kNone) {
      const auto [raw_rewards, outcomes] = VerdictsOf(head);
      buttress::AddGroup(raw_rewards, outcomes, ClassOf(head), 0, selection_.mopps.decay,
                         changes.records[id - 1]);
    }
    changes.accepted.push_back(std::move(accepted));
    return OkStatus();
  }

  static ManifestRow Announced(std::uint64_t step) {
    WeightManifest manifest;
    manifest.version = {1, step, ""};
    manifest.files = {{"model.safetensors", 1, Sha256Of("weights")}};
    manifest.version.digest = ManifestDigest(manifest);
    return {manifest.version, ManifestToProto(manifest).SerializeAsString()};
  }

  const std::uint64_t prompts_;
  const SelectionConfig selection_;
  Ledger& ledger_;
  PayloadStore& payloads_;
  RunRow run_;
  CollapseCounts total_;
};

// Writes <out>/ledger.db and <out>/payloads as a run of `config` leaves them that has settled
// `groups` groups of two completions, with payloads of a few bytes; with a selection, also the
// records of their prompts. The groups are the first rows of the dataset in the order of the file,
// which has prompts "prompt-0", "prompt-1", ... Groups are archived as local.coordinator says.
inline Status WritePastRun(const RunConfig& config, std::int64_t groups) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(config.local.out));
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger,
                            Ledger::Open(JoinPath(config.local.out, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto payloads,
      PayloadStore::Open(JoinPath(config.local.out, "payloads"), ledger->payload_end()));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string rows, ReadFile(config.run.data.prompts));
  const DatasetIdentity dataset{static_cast<std::uint64_t>(std::ranges::count(rows, '\n')),
                                ToHex(Sha256Of(rows))};
  return PastRun(config, dataset, *ledger, *payloads)
      .Write(static_cast<std::uint64_t>(groups / config.run.batch.prompts),
             static_cast<std::uint64_t>(config.local.coordinator.archive_steps));
}

}  // namespace buttress
