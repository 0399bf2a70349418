// Settings of the loss: the sections of run.algorithm that are read with or by the policy loss of
// `run.algorithm.loss`.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

// Weights for the gap between the policy that sampled and the old policy of the ratio.
struct CorrectionConfig {
  std::string mode = "none";
  std::string level = "token";
  double cap = 2.0;
  double floor = 0.5;

  template <class V>
  void Visit(V& v) {
    v("mode", mode,
      "with w = old policy / sampling policy: none | is (w) | tis (min(w, cap)) | mis (w, 0 above "
      "cap) | icepop (w, 0 outside floor and cap); "
      "needs old_policy: learner");
    v("level", level,
      "w of a token | sequence (product over the completion) | geometric (its T-th root)");
    v("cap", cap, "upper bound of w");
    v("floor", floor, "icepop: lower bound of w");
  }
};

// Completions that were cut at the token limit or come near it (DAPO, arXiv 2503.14476, section
// 3.4).
struct OverlongConfig {
  bool filter = false;
  std::int64_t length = 0;
  std::int64_t cache = 0;
  double penalty = 1.0;

  template <class V>
  void Visit(V& v) {
    v("filter", filter,
      "leave completions that were cut at the token limit out of the loss and its denominators");
    v("length", length, "tokens from which the soft punishment is whole; 0 = sampling.max_tokens");
    v("cache", cache, "tokens before `length` over which it grows; 0 = no soft punishment");
    v("penalty", penalty,
      "whole punishment, taken off the reward; the raw reward, and so ACR, stays");
  }
};

// The entropy coefficient as a controller of the policy's entropy (Skywork-OR1, arXiv 2505.22312).
struct AdaptiveEntropyConfig {
  double target = 0.0;
  double step = 0.005;
  double min = 0.0;
  double max = 1.0;

  template <class V>
  void Visit(V& v) {
    v("target", target,
      "nats a token below which the bonus acts; 0 = off: entropy_coef stays as it is");
    v("step", step,
      "what the coefficient rises by after a step at or below target, and falls by after one "
      "above");
    v("min", min, "lower bound of the coefficient");
    v("max", max, "upper bound of the coefficient");
  }
};

struct SapoConfig {
  double tau_positive = 1.0;
  double tau_negative = 1.05;

  template <class V>
  void Visit(V& v) {
    v("tau_positive", tau_positive, "temperature of the gate where the advantage is above 0");
    v("tau_negative", tau_negative, "temperature of the gate elsewhere");
  }
};

struct DppoConfig {
  double cap = 20.0;

  template <class V>
  void Visit(V& v) {
    v("cap", cap, "upper bound of the ratio that weights a token");
  }
};

struct ClipCovConfig {
  double share = 0.0002;
  double low = 1.0;
  double high = 5.0;

  template <class V>
  void Visit(V& v) {
    v("share", share, "tokens left out, of all tokens of the step");
    v("low", low, "only tokens whose covariance is above this");
    v("high", high, "and below this");
  }
};

struct KlCovConfig {
  double share = 0.0002;
  double coef = 0.1;

  template <class V>
  void Visit(V& v) {
    v("share", share,
      "tokens with a penalty, of all tokens of the step: those with the highest covariance");
    v("coef", coef, "weight of the penalty |log ratio|");
  }
};

}  // namespace buttress
