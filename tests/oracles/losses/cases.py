"""The comparisons: a loss of Buttress and one of verl or TRL, with the settings of both."""
import ast
import dataclasses
import inspect
import textwrap
import types

import torch


# Losses of verl and TRL that no setting here gives, and why.
WITHOUT_COUNTERPART = {
    "verl dro": "-A lp with a quadratic penalty on the log ratio to the old policy",
    "verl bypass_mode": "is vanilla or reinforce, which have cases of their own",
    "trl vespo": "-A lp weighted by a gamma density of the ratio of the whole completion",
}


@dataclasses.dataclass
class Case:
    """One comparison.

    `settings` are those of run.algorithm. `theirs(batch, lp)` gives the peer's loss as a scalar
    that depends on `lp` [B, T]. `values` is False where only gradients agree; `why` then says why.
    """
    name: str
    settings: dict
    theirs: object
    values: bool = True
    why: str = ""
    on_policy_sampler: bool = False  # sampler = current: equal covariances
    per_case: dict = dataclasses.field(default_factory=dict)


def verl_cases(core, corr, ActorConfig):
    def config(**over):
        base = dict(clip_ratio=0.2,
                    clip_ratio_low=0.2,
                    clip_ratio_high=0.28,
                    clip_ratio_c=3.0,
                    tau_pos=1.0,
                    tau_neg=1.05,
                    global_batch_info={},
                    policy_loss=types.SimpleNamespace(clip_cov_ratio=1.0,
                                                      clip_cov_lb=0.05,
                                                      clip_cov_ub=1.0,
                                                      kl_cov_ratio=0.1,
                                                      ppo_kl_coef=0.1))
        return ActorConfig(**{**base, **over})

    def loss(function, mode="token-mean", weights=None, **over):
        def theirs(batch, lp):
            is_weights = None if weights is None else weights(batch)
            settings = config(**over)
            if mode == "seq-mean-token-sum-norm":
                settings.global_batch_info = {"loss_scale_factor": 16}
            return core.POLICY_LOSS_REGISTRY[function](batch.old, lp, batch.advantages, batch.mask,
                                                       mode, settings, is_weights)[0]
        return theirs

    def correction(level, threshold):
        def weights(batch):
            try:
                return corr.compute_rollout_correction_weights(batch.old - batch.sampler,
                                                               batch.mask, level, threshold)[0]
            except ZeroDivisionError:  # in its metrics, where every weight is masked
                return torch.zeros_like(batch.mask)
        return weights

    def reinforce(cap=None):
        """Its weights are detached, of the current policy against the one that sampled."""
        def theirs(batch, lp):
            weights = None if cap is None else corr.compute_rollout_correction_weights(
                lp - batch.old, batch.mask, "token", cap)[0]
            return core.compute_policy_loss_reinforce(batch.old, lp, batch.advantages, batch.mask,
                                                      "seq-mean-token-sum", config(), weights)[0]
        return theirs

    def with_kl(kind):
        def theirs(batch, lp):
            policy = loss("vanilla")(batch, lp)
            return policy + 0.3 * core.agg_loss(core.kl_penalty(lp, batch.ref, kind), batch.mask,
                                                "token-mean")
        return theirs

    dual = {"dual_clip": 3}
    modes = {
        "token-mean": "token_mean", "token-sum": "token_sum",
        "seq-mean-token-sum": "seq_mean_token_sum", "seq-mean-token-mean": "seq_mean_token_mean",
        "seq-mean-token-sum-norm": "seq_mean_token_sum_norm"
    }
    cases = [
        Case(f"verl vanilla, {theirs}",
             {**dual, "aggregation": ours, **({"length_norm": 16} if "norm" in ours else {})},
             loss("vanilla", theirs)) for theirs, ours in modes.items()
    ]
    gspo = {"loss": "gspo", "aggregation": "seq_mean_token_mean"}
    cases += [
        Case("verl gspo", gspo, loss("gspo", "seq-mean-token-mean")),
        Case("verl gspo, token-mean", {"loss": "gspo"}, loss("gspo")),
        Case("verl gspo, as gspo_token", {**gspo, "loss": "gspo_token"},
             loss("gspo", "seq-mean-token-mean")),
        Case("verl cispo", {"loss": "cispo"}, loss("cispo")),
        Case("verl sapo", {"loss": "sapo", "aggregation": "seq_mean_token_mean"},
             loss("sapo", "seq-mean-token-mean")),
        Case("verl geo_mean", {"loss": "gmpo", "aggregation": "seq_mean_token_mean"},
             loss("geo_mean")),
        Case("verl gpg", {"loss": "gpg"}, loss("gpg")),
        Case("verl reinforce", {"loss": "gpg", "aggregation": "seq_mean_token_sum"}, reinforce()),
        Case("verl reinforce, token weights to 2: clip_low 1, clip_high 1",
             {"loss": "cispo", "clip_low": 1, "clip_high": 1, "aggregation": "seq_mean_token_sum"},
             reinforce(2.0)),
        Case("verl dppo_tv",
             {"loss": "dppo_tv", "clip_low": 0.06, "clip_high": 0.08, "dppo.cap": 1.5},
             loss("dppo_tv", clip_ratio_low=0.06, clip_ratio_high=0.08, clip_ratio_c=1.5)),
        Case("verl dppo_kl",
             {"loss": "dppo_kl", "clip_low": 0.01, "clip_high": 0.02, "dppo.cap": 1.5},
             loss("dppo_kl", clip_ratio_low=0.01, clip_ratio_high=0.02, clip_ratio_c=1.5)),
        Case("verl kl_cov", {"loss": "kl_cov", "kl_cov.share": 0.1, "kl_cov.coef": 0.1},
             loss("kl_cov"),
             on_policy_sampler=True),
        Case(
            "verl clip_cov",
            {"loss": "clip_cov", "clip_cov.share": 1, "clip_cov.low": 0.05, "clip_cov.high": 1},
            loss("clip_cov"),
            values=False,
            why="verl does not choose among tokens that the ratio clip cut; their gradient is 0 "
            "either way",
            on_policy_sampler=True),
        Case("verl tis, token",
             {**dual, "old_policy": "learner", "correction.mode": "tis", "correction.cap": 1.3},
             loss("vanilla", weights=correction("token", 1.3))),
        Case("verl tis, sequence", {
            **dual, "old_policy": "learner", "correction.mode": "tis",
            "correction.level": "sequence"
        }, loss("vanilla", weights=correction("sequence", 2.0))),
        Case(
            "verl icepop", {
                **dual, "old_policy": "learner", "correction.mode": "icepop", "correction.cap": 1.5,
                "correction.floor": 0.7
            }, loss("vanilla", weights=correction("token", "0.7_1.5"))),
        Case(
            "verl icepop, sequence, gspo", {
                **gspo, "old_policy": "learner", "correction.mode": "icepop",
                "correction.level": "sequence", "correction.cap": 1.5, "correction.floor": 0.7
            }, loss("gspo", "seq-mean-token-mean", weights=correction("sequence", "0.7_1.5"))),
    ]
    cases += [
        Case(f"verl kl {kind} in the loss", {**dual, "kl_coef": 0.3, "kl_estimator": kind},
             with_kl(kind)) for kind in ("k1", "k2", "k3", "k3+")
    ]
    return cases


def trl_cases(GRPOTrainer):
    def loss(loss_type, level="token", delta=None, beta=0.0, **over):
        def theirs(batch, lp):
            trainer = stand_in(GRPOTrainer, batch, lp, loss_type, level, delta, beta, over)
            inputs = {
                "prompt_ids": batch.mask[:, :1].long(), "prompt_mask": batch.mask[:, :1].long(),
                "completion_ids": batch.mask.long(), "completion_mask": batch.mask.long(),
                "advantages": batch.advantages[:, 0], "old_per_token_logps": batch.old,
                "num_items_in_batch": batch.mask.sum(), "ref_per_token_logps": batch.ref
            }
            return GRPOTrainer._compute_loss(trainer, types.SimpleNamespace(training=True), inputs)
        return theirs

    per_completion = {"aggregation": "seq_mean_token_mean"}
    return [
        Case("trl dapo", {}, loss("dapo")),
        Case("trl bnpo", {}, loss("bnpo")),
        Case("trl grpo", per_completion, loss("grpo")),
        Case("trl dr_grpo", {"aggregation": "seq_mean_token_sum_norm", "length_norm": 16},
             loss("dr_grpo")),
        Case("trl grpo, delta 3", {**per_completion, "dual_clip": 3}, loss("grpo", delta=3.0)),
        Case("trl grpo, sequence level (GSPO)", {**per_completion, "loss": "gspo"},
             loss("grpo", level="sequence")),
        Case("trl luspo", {"aggregation": "seq_mean_token_sum", "loss": "gspo"},
             loss("luspo", level="sequence")),
        Case("trl cispo, cap 5: clip_low 1, clip_high 4",
             {"loss": "cispo", "clip_low": 1, "clip_high": 4}, loss("cispo", epsilon_high=5.0)),
        Case("trl sapo", {**per_completion, "loss": "sapo"}, loss("sapo")),
        Case("trl dapo, beta", {"kl_coef": 0.3}, loss("dapo", beta=0.3)),
    ]


def check_complete(core, GRPOTrainer, table):
    """Fails where verl or TRL has a loss without a case that WITHOUT_COUNTERPART does not name."""
    step = ast.parse(textwrap.dedent(inspect.getsource(GRPOTrainer._compute_loss)))
    compared = [test for test in ast.walk(step) if isinstance(test, ast.Compare) and
                ast.unparse(test.left) == "self.loss_type"]
    losses = {f"verl {name}" for name in core.POLICY_LOSS_REGISTRY}
    losses |= {f"trl {text.value}" for test in compared for text in ast.walk(test)
               if isinstance(text, ast.Constant)}
    missing = losses - {case.name.split(",")[0] for case in table}
    assert missing == set(WITHOUT_COUNTERPART), sorted(missing ^ set(WITHOUT_COUNTERPART))


class StandIn(types.SimpleNamespace):
    """A GRPOTrainer that has run its model already."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return self.logps, torch.zeros_like(self.logps), None


class Accelerator:
    num_processes = 1
    sync_gradients = True

    def gather(self, x):
        return x

    def reduce(self, x, reduction="sum"):
        return x


def stand_in(GRPOTrainer, batch, lp, loss_type, level, delta, beta, over):
    import collections
    args = types.SimpleNamespace(use_bias_correction_kl=False,
                                 delta=delta,
                                 sapo_temperature_pos=1.0,
                                 sapo_temperature_neg=1.05,
                                 steps_per_generation=1)
    settings = dict(logps=lp,
                    aux_loss_enabled=False,
                    top_entropy_quantile=1.0,
                    off_policy_mask_threshold=None,
                    importance_sampling_level=level,
                    beta=beta,
                    args=args,
                    loss_type=loss_type,
                    epsilon_low=0.2,
                    epsilon_high=0.28,
                    use_vllm=False,
                    vllm_importance_sampling_correction=False,
                    current_gradient_accumulation_steps=1,
                    max_completion_length=16,
                    accelerator=Accelerator(),
                    _entropy_bonus_enabled=False,
                    model=types.SimpleNamespace(training=True),
                    _metrics={"train": collections.defaultdict(list)})
    return StandIn(**{**settings, **over})
