#include "coordinator/page/alarm_advice.h"

#include <array>

namespace buttress {
namespace {

constexpr std::array<AlarmAdvice, kAlarms> kAdvice = {{
    {"The policy hardly varies: its entropy has stayed below the floor.",
     "If accuracy still rises, lower local.learner.alarms.entropy_floor. Otherwise raise "
     "run.algorithm.entropy_coef or the temperature, or go back to an earlier checkpoint."},
    {"The policy loses its variety: the entropy falls fast.",
     "Lower run.optim.lr, raise the upper clip, or add an entropy bonus before groups collapse."},
    {"Learner and sampler, or the policy and its start, have drifted apart.",
     "Lower run.optim.lr or run.batch.max_age, or add a KL loss. A jump at one step points to the "
     "sampler: compare its log-probs by `buttress logprobs`."},
    {"The completions of a prompt are nearly copies of each other.",
     "Raise the temperature or the entropy bonus; `buttress samples` shows what they are."},
    {"Most groups give no gradient, after virtual samples and replacement.",
     "`buttress explain` names the causes. Mix easier and harder prompts, raise "
     "run.sampling.group_size, or set run.batch.zero_variance: resample."},
    {"More groups collapse than the difficulty of the prompts explains.",
     "`buttress explain` names the cause: often a verifier that judges a prompt always alike, "
     "copies, or weights that workers do not load."},
    {"The verifier cannot judge many completions.",
     "Look at the reasons by `buttress samples RUN --class unscorable` and fix the verifier, its "
     "sandbox or its server."},
    {"Many completions reach the token limit before an answer.",
     "Raise run.sampling.max_tokens, or teach a format that ends; `buttress samples` shows where "
     "they are cut."},
    {"The length of completions has left that of the first steps.",
     "Read the samples: growth without a better reward is often repetition, and a fall is often a "
     "reward that needs no reasoning."},
    {"Two verifiers disagree on the same completions.",
     "Read such completions by `buttress samples` and check the verifier by `buttress "
     "audit-verifier`: the policy may have learned its errors."},
}};

}  // namespace

const AlarmAdvice& AdviceOn(Alarm alarm) { return kAdvice[static_cast<std::size_t>(alarm)]; }

}  // namespace buttress
