#include "cli/explain/metric_names.h"

namespace buttress {
namespace {

using enum MetricUse;

constexpr MetricName kNames[] = {
    {"frac_reward_zero_std", kCollapsed, "TRL"},
    {"rollout_reward/group_zero_std_frac", kCollapsed, "torchtitan"},
    {"rollout_reward/group_zero_std_frac/mean", kCollapsed, "torchtitan"},
    {"training/n_zero_adv_groups", kCollapsed, "Agent Lightning", 1, "training/n_groups"},
    {"training/filter_groups/filtered_groups", kCollapsed, "verl", 1,
     "training/filter_groups/generated_groups"},
    {"dynamic_filtering_pass_rate", kInformative, "OpenRLHF", 0.01},
    {"async/keep_rate", kInformative, "SkyRL"},
    {"fractions/effective", kInformative, "rLLM"},
    {"fractions/too_easy", kAllCorrect, "rLLM"},
    {"fractions/too_hard", kAllWrong, "rLLM"},
    {"by_group/frac_mixed", kInformative, "tinker-cookbook"},
    {"by_group/frac_all_good", kAllCorrect, "tinker-cookbook"},
    {"by_group/frac_all_bad", kAllWrong, "tinker-cookbook"},
    {"baseline_reward/pct_mixed", kInformative, "NeMo RL", 0.01},
    {"baseline_reward/pct_1", kAllCorrect, "NeMo RL", 0.01},
    {"baseline_reward/pct_0", kAllWrong, "NeMo RL", 0.01},
    {"solved_all", kAllCorrect, "prime-rl"},
    {"solved_none", kAllWrong, "prime-rl"},
    {"data/step_num_groups_trainable", kInformative, "ART", 1, "data/step_num_groups_submitted"},
    {"training/filter_groups/evicted_samples", kDropped, "verl"},
    {"reward/num_zero_variance_filtered", kDropped, "SkyRL"},
    {"async/num_groups_dropped", kDropped, "SkyRL"},
    {"training_sample_builder/num_groups_dropped_zero_std", kDropped, "torchtitan"},
    {"training_sample_builder/num_groups_dropped_zero_std/sum", kDropped, "torchtitan"},
};

}  // namespace

std::span<const MetricName> MetricNames() { return kNames; }

}  // namespace buttress
