// N rows of a micro-batch, M scored tokens, D width, F width of an MLP, H and K heads of C values,
// V vocabulary.
#include "lib/checks/learner_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/checks/findings.h"

namespace buttress {
namespace {

constexpr double kFloat = 4, kIndex = 8;  // bytes

// Of a GPU: the context and kernels of CUDA, workspaces of cuBLAS, buffers of NCCL.
constexpr double kCudaLibraries = 2.0 * (1 << 30);

// The sizes of the code that computes: short_kernels.h, packed_layout.h, logprobs.cc and
// optimizer.cc.
constexpr double kShortLength = 64, kShortHead = 128, kVarlenKeys = 65536;
constexpr double kVocabularyBlock = 4096, kBlockLogits = 1 << 26, kKeptLogits = 1 << 27;
constexpr double kUpdateChunk = 1 << 22, kUpdateBytes = 80;

double Whole(std::int64_t count) { return static_cast<double>(count); }

double BlockParameters(const BlockSpec& block) {
  const AttentionSpec& attention = block.attention;
  const std::int64_t qkv = attention.q_width() + 2 * attention.kv_width();
  const auto mlps = static_cast<std::int64_t>(block.mlps());
  return Whole(block.D * (qkv + attention.q_width()) + (block.qkv_bias ? qkv : 0) +
               (block.out_bias ? block.D : 0) + (block.qk_norm ? 2 * attention.C : 0) +
               (block.post_norms ? 4 : 2) * block.D + mlps * 3 * block.F * block.D +
               block.experts.count * block.D);
}

double ExpertParameters(const BlockSpec& block) {
  return Whole(block.experts.count * 3 * block.F * block.D);
}

// The units of UnitSizes without their experts.
std::vector<double> WithoutExperts(std::vector<double> units, const ModelConfig& model) {
  for (std::size_t i = 0; i < model.blocks.size(); ++i)
    units[1 + i] -= ExpertParameters(model.blocks[i]);
  return units;
}

// The largest parameter of a block.
double LargestMatrix(const BlockSpec& block) {
  return Whole(block.D * std::max(block.F, block.attention.q_width()));
}

// The largest sum of `count` units in a row.
double LargestRun(const std::vector<double>& units, std::size_t count) {
  double largest = 0;
  for (std::size_t first = 0; first < units.size(); ++first) {
    const auto begin = units.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t some = std::min(count, units.size() - first);
    largest =
        std::max(largest, std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(some), 0.0));
  }
  return largest;
}

// The adapters of each block (run.lora).
std::vector<double> AdapterSizes(const LoraConfig& lora, const ModelConfig& model) {
  const auto has = [&lora](LoraTarget target) {
    return std::ranges::any_of(lora.targets, [target](LoraTarget named) {
      return named == target || named == LoraTarget::kAll;
    });
  };
  std::vector<double> sizes;
  for (const BlockSpec& block : model.blocks) {
    const std::int64_t q = block.attention.q_width(), kv = block.attention.kv_width();
    std::int64_t widths = 0;  // of inputs and outputs
    if (has(LoraTarget::kQ)) widths += block.D + q;
    if (has(LoraTarget::kK)) widths += block.D + kv;
    if (has(LoraTarget::kV)) widths += block.D + kv;
    if (has(LoraTarget::kO)) widths += q + block.D;
    for (const LoraTarget target : {LoraTarget::kGate, LoraTarget::kUp, LoraTarget::kDown})
      if (has(target)) widths += block.D + block.F;
    sizes.push_back(Whole(lora.rank * widths));
  }
  return sizes;
}

// The units in the order of a pass, which multiplies with a tied table twice.
std::vector<double> TablesOf(const ModelConfig& model, std::vector<double> units) {
  if (model.tie_word_embeddings) units.back() += units.front();
  return units;
}

// The values of gradients that a rank holds whole: those of the unit in the backward pass and of
// two whose sums over the ranks are on their way, and of a tied table throughout.
double WholeGradients(const ModelConfig& model, const std::vector<double>& units) {
  if (!model.tie_word_embeddings) return LargestRun(units, 3);
  return units.front() + LargestRun({units.begin() + 1, units.end()}, 3);
}

// What a block keeps for its backward pass, and what the two passes take in addition.
struct LayerBytes {
  double kept = 0;
  double forward = 0;
  double backward = 0;
};

// The forward and backward pass of a micro-batch.
class PassMemory {
 public:
  PassMemory(const RunConfig& config, const ModelConfig& model, const MicroBatchShape& shape)
      : config_(config),
        model_(model),
        shape_(shape),
        kernels_(config.local.learner.device == ComputeDevice::kCpu),
        floats_(config.run.model.dtype == ModelDtype::kFloat32),
        bytes_(floats_ ? 4 : 2),
        N_(shape.rows()),
        M_(shape.prompts * shape.completions * shape.completion_tokens) {}

  void AddTo(MemoryPlan& plan) const {
    double kept = 0, block = 0, again = 0;  // what is computed again
    for (const BlockSpec& spec : model_.blocks) {
      const LayerBytes one = Block(spec);
      const double end =
          BlockParameters(spec) * bytes_ + (floats_ ? 0 : kFloat * LargestMatrix(spec)) - one.kept;
      kept += Kept(spec, one);
      block = std::max({block, one.forward, one.backward, end});
      again = std::max(again, one.kept - Kept(spec, one));
    }
    // The last norm keeps its input and the rows that predict scored tokens, before and after it.
    const double head_rows = 2 * M_ * Whole(model_.hidden_size) * bytes_ + Norm(M_, D());
    plan.activations = kept + Values(model_.hidden_size) + head_rows + Mask();
    plan.block = again + block;
    plan.head = Head();
  }

 private:
  // What a block keeps from the forward pass to the backward pass.
  double Kept(const BlockSpec& spec, const LayerBytes& all) const {
    const Recompute recompute = config_.local.learner.recompute;
    if (recompute == Recompute::kBlock) return Values(spec.D);
    // The MLP, with the norm in front of it, begins from a copy of its input.
    if (recompute == Recompute::kSelective)
      return all.kept - Mlp(spec) - Values(spec.D) - Norm(N_, Whole(spec.D));
    return all.kept;
  }

  double D() const { return Whole(model_.hidden_size); }

  // Of a value for each row.
  double Values(double width) const { return N_ * width * bytes_; }

  double Values(std::int64_t width) const { return Values(Whole(width)); }

  bool prefixed() const { return shape_.completions > 1; }

  double completions() const { return shape_.prompts * shape_.completions; }

  double longest() const { return shape_.prompt_tokens + shape_.completion_tokens; }

  // What RMSNorm keeps in addition to its input in the dtype of the model: the scale of a row. By
  // operators, which multiply by 1 + w on GPUs, also input and product in float32.
  double Norm(double rows, double width) const {
    if (kernels_ || !model_.final_norm.adds_one) return kFloat * rows;
    return rows * (kFloat + width * (kFloat + (floats_ ? 0 : kFloat)));
  }

  bool Short(const AttentionSpec& spec) const {
    return kernels_ && longest() <= kShortLength && Whole(spec.C) <= kShortHead &&
           !spec.windowed(static_cast<std::int64_t>(longest())) && spec.score_cap == 0;
  }

  // Whether rows are copied into rectangles, with a mask for sequences behind a prefix.
  bool Padded(const AttentionSpec& spec) const {
    return !Short(spec) && (kernels_ || floats_ || spec.score_cap > 0);
  }

  // The keys and values of completions, in rows: those of the prompt come with each.
  double KeyRows() const { return prefixed() ? completions() * longest() : 0; }

  // The mask of completions behind their prompts, in bits of bool that all blocks share.
  double Mask() const {
    const bool masks = std::ranges::any_of(
        model_.blocks, [&](const BlockSpec& block) { return Padded(block.attention); });
    return masks ? PairsBehind() : 0;
  }

  // Pairs of a row and a key: of completions behind their prompts, and of all other sequences.
  double PairsBehind() const { return KeyRows() * shape_.completion_tokens; }

  double PairsAlone() const {
    const double length = prefixed() ? shape_.prompt_tokens : longest();
    return shape_.prompts * length * length;
  }

  // What a block keeps of its scores: the mask as numbers, or all scores if they are capped.
  double Scores(const AttentionSpec& spec, double pairs) const {
    if (spec.score_cap == 0) return pairs * bytes_;
    return pairs * (Whole(spec.H) * (kFloat + bytes_ + (floats_ ? 0 : bytes_)) + 1);
  }

  // Queries, keys and values are counted by the block.
  LayerBytes Attention(const AttentionSpec& spec) const {
    const double q = Whole(spec.q_width()), kv = Whole(spec.kv_width());
    LayerBytes result;
    result.kept = Values(q) + kFloat * N_ * Whole(spec.H);
    result.backward = Values(2 * q + 2 * kv);  // the gradients of its output and its input
    if (Short(spec)) return result;
    const double key_rows = KeyRows();
    if (!Padded(spec)) {
      // Gathered for the sequences of a part, and again for their gradients.
      const double gathered = std::min(key_rows, kVarlenKeys) * 2 * kv * bytes_;
      result.forward = gathered;
      result.backward += 2 * gathered + (prefixed() ? N_ * 2 * kv * kFloat : 0);
      return result;
    }
    // Keys and values are repeated for the query heads that share them.
    const double own = spec.H == spec.K ? 0
                       : prefixed()     ? shape_.prompts * shape_.prompt_tokens
                                        : N_;
    const double repeated = (own + key_rows) * 2 * q * bytes_;
    const bool moved = prefixed() || shape_.prompts > 1;  // into rectangles, and back
    const bool capped = spec.score_cap > 0;
    const double behind = PairsBehind(), alone = PairsAlone();
    const double scores = Scores(spec, capped ? behind + alone : behind);
    result.kept += repeated + scores + (moved ? Values(q) : 0);
    // The gradients of repeated rows; then, when these rows are freed, their sums in float32.
    const double sums = (key_rows * (bytes_ + kFloat) + (prefixed() ? N_ * kFloat : 0)) * 2 * kv;
    result.backward += std::max(repeated, sums - scores - repeated - Values(2 * q));
    if (!capped) return result;
    // Scores before and after the cap, with and without mask, of one kind of sequences at a time.
    const double most = Whole(spec.H) * std::max(behind, alone);
    result.forward = most * (floats_ ? 3 * kFloat : 3 * bytes_ + kFloat - bytes_) -
                     Scores(spec, std::min(behind, alone));
    result.backward += most * (floats_ ? 2 * kFloat : 2 * kFloat - bytes_);
    return result;
  }

  double Mlp(const BlockSpec& block) const {
    const double F = Whole(block.F), width = kernels_ ? 3 * F : 4 * F;
    if (block.experts.count == 0) return Values(width);
    const double chosen = Whole(block.experts.top_k), experts = Whole(block.experts.count);
    // Rows that are exchanged, as they come and sorted.
    const double copies = config_.local.learner.expert_parallel ? 4 : 2;
    return Values(chosen * (width + copies * Whole(block.D))) +
           N_ * ((floats_ ? 0 : kFloat * Whole(block.D)) + 2 * kFloat * experts +
                 4 * kIndex * chosen);
  }

  LayerBytes Block(const BlockSpec& block) const {
    const AttentionSpec& spec = block.attention;
    const double D = Whole(block.D),
                 F = Whole(block.F * std::max<std::int64_t>(1, block.experts.top_k));
    const double q = Whole(spec.q_width()), kv = Whole(spec.kv_width());
    const LayerBytes attention = Attention(spec);
    // Input, its norm, queries with keys and values; the sum, its norm.
    double kept = Values(4 * D + q + 2 * kv) + 2 * Norm(N_, D) + attention.kept + Mlp(block);
    if (block.qk_norm && kernels_)
      kept += Values(q + 2 * kv) + kFloat * N_ * Whole(spec.H + spec.K);
    if (block.qk_norm && !kernels_)
      kept += Values(q + kv) + Norm(N_ * Whole(spec.H + spec.K), Whole(spec.C));
    if (!kernels_) kept += 2 * kFloat * N_ * Whole(spec.C);  // sines and cosines
    if (block.post_norms) kept += 2 * (Values(D) + Norm(N_, D));
    // In the forward pass the MLP comes last; in the backward pass it comes first, and frees what
    // it kept.
    const double matrix = Whole(block.D * block.F) * bytes_;
    const double forward = attention.forward - Mlp(block) - Values(2 * D);
    const double mlp = Values(D + (kernels_ ? 2 : 3) * F) + matrix;
    const double mix = Values(D) + N_ * Whole(block.experts.top_k) * D * (2 * kFloat + bytes_);
    const double later = Values(D) + attention.backward - Mlp(block) + 3 * matrix;
    return {kept, forward, std::max({mlp, mix, later})};
  }

  // Logits exist for a block of the vocabulary at a time, or all are kept if there are few
  // (lib/policy/logprobs.h).
  double Head() const {
    const AlgorithmConfig& algorithm = config_.run.algorithm;
    const double V = Whole(model_.vocab_size);
    const double columns = std::min({V, kVocabularyBlock, std::max(1.0, kBlockLogits / M_)});
    const double block = M_ * columns * kFloat;
    const double kept = M_ * V <= kKeptLogits ? M_ * V * kFloat : 0;
    const bool bonus = algorithm.entropy_coef > 0 || algorithm.adaptive_entropy.target > 0;
    const double capped = model_.logit_cap > 0 ? 2 * block : 0;
    const double rounded = floats_ ? 0 : M_ * columns * bytes_ + columns * D() * kFloat;
    // Logits, and their exponentials; those of the start model come while the policy keeps its own.
    const double floats = floats_ ? 0 : (M_ + columns) * D() * kFloat;
    const double forward = kept + 2 * block + capped + floats;
    const double gradients = M_ * D() * kFloat + columns * D() * (bytes_ + kFloat);
    return std::max(forward, kept + (bonus ? 2 : 1) * block + capped + rounded + gradients);
  }

  const RunConfig& config_;
  const ModelConfig& model_;
  const MicroBatchShape shape_;
  const bool kernels_;  // the row kernels of CPUs, else operators
  const bool floats_;
  const double bytes_;
  const double N_;
  const double M_;
};

}  // namespace

double MemoryPlan::state() const {
  return weights + gradients + masters + moments + reference + gathered + libraries;
}

double MemoryPlan::peak() const {
  return state() + std::max(activations + std::max(block, head), update);
}

MicroBatchShape FullMicroBatch(const RunConfig& config, const ModelConfig& model) {
  const SamplingConfig& sampling = config.run.sampling;
  MicroBatchShape shape;
  shape.completion_tokens = Whole(sampling.max_tokens);
  shape.prompt_tokens = Whole(std::max<std::int64_t>(
      1, std::min(config.run.data.max_prompt_tokens, model.max_positions - sampling.max_tokens)));
  const double most = Whole(config.local.learner.micro_batch_tokens);
  const double fit = (most - shape.prompt_tokens) / shape.completion_tokens;
  shape.completions = std::floor(std::clamp(fit, 1.0, Whole(sampling.group_size)));
  shape.prompts = std::max(1.0, most / shape.rows());
  return shape;
}

std::vector<double> UnitSizes(const ModelConfig& model) {
  const double table = Whole(model.vocab_size * model.hidden_size);
  std::vector<double> sizes = {table};
  for (const BlockSpec& block : model.blocks) sizes.push_back(BlockParameters(block));
  sizes.push_back(Whole(model.hidden_size) + (model.tie_word_embeddings ? 0 : table));
  return sizes;
}

MemoryPlan PlanLearnerMemory(const RunConfig& config, const ModelConfig& model,
                             const MicroBatchShape& shape, std::int64_t ranks, ZeroStage stage) {
  const bool floats = config.run.model.dtype == ModelDtype::kFloat32;
  const bool lora = config.run.lora.on();  // adapters are float32, and all that is trained
  const bool stochastic =
      !floats && !lora && config.run.optim.precision == OptimPrecision::kStochastic;
  const bool cuda = config.local.learner.device == ComputeDevice::kCuda;
  const std::vector<double> units = UnitSizes(model);
  const std::vector<double> trained = lora ? AdapterSizes(config.run.lora, model) : units;
  const bool third = stage == ZeroStage::k3 && ranks > 1;
  // Experts that stay divided are never gathered but for publishing.
  const bool experts = third && config.local.learner.expert_parallel;
  const std::vector<double> gathered = experts ? WithoutExperts(units, model) : units;
  const double largest = *std::ranges::max_element(trained);
  const auto part = [&](const std::vector<double>& sizes, bool divided) {
    const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
    return divided ? all / Whole(ranks) : all;
  };
  const double whole = lora ? LargestRun(trained, 3) : WholeGradients(model, gathered);
  const double value = floats ? 4 : 2;
  MemoryPlan plan;
  plan.weights = value * part(units, third) + (lora ? kFloat * part(trained, third) : 0);
  plan.gradients = kFloat * (part(trained, true) + (ranks > 1 ? whole : 0));
  plan.masters = floats || lora || stochastic ? 0 : kFloat * part(trained, stage != ZeroStage::k0);
  plan.moments = (stochastic ? 4 : 8) * part(trained, stage != ZeroStage::k0);
  const Offload offload = config.local.learner.offload;
  if (offload == Offload::kDisk || (offload == Offload::kHost && cuda))
    plan.masters = plan.moments = 0;
  plan.reference = config.run.algorithm.kl_coef > 0 && !lora ? value * part(units, third) : 0;
  plan.gathered = third ? value * LargestRun(TablesOf(model, gathered), 2) : 0;
  plan.update = stochastic && cuda ? std::min(kUpdateChunk, largest) * kUpdateBytes : 0;
  if (stage == ZeroStage::k0 && ranks > 1) plan.update += kFloat * largest;
  if (experts) plan.update = std::max(plan.update, value * LargestRun(units, 1));
  plan.libraries = cuda ? kCudaLibraries : 0;
  PassMemory(config, model, shape).AddTo(plan);
  return plan;
}

std::vector<std::pair<std::string, double>> PartsOf(const MemoryPlan& plan) {
  std::vector<std::pair<std::string, double>> parts = {{"weights", plan.weights},
                                                       {"gradients", plan.gradients},
                                                       {"masters", plan.masters},
                                                       {"moments", plan.moments},
                                                       {"reference", plan.reference},
                                                       {"gathered units", plan.gathered},
                                                       {"activations", plan.activations},
                                                       {"block", plan.block},
                                                       {"head", plan.head},
                                                       {"update", plan.update},
                                                       {"libraries", plan.libraries}};
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  return parts;
}

std::string DescribePlan(const MemoryPlan& plan) {
  std::string text = SizeText(plan.peak()) + " at most:";
  for (const auto& [name, bytes] : PartsOf(plan))
    text += fmt::format(" {} {},", name, SizeText(bytes));
  text.pop_back();
  return text;
}

std::string AdviceFor(const MemoryPlan& plan, const RunConfig& config) {
  const LearnerConfig& learner = config.local.learner;
  const bool floats = config.run.model.dtype == ModelDtype::kFloat32;
  if (plan.peak() > 2 * plan.state()) {
    if (plan.head > plan.activations + plan.block)
      return fmt::format("lower local.learner.micro_batch_tokens ({})", learner.micro_batch_tokens);
    return fmt::format(
        "lower local.learner.micro_batch_tokens ({}){}", learner.micro_batch_tokens,
        learner.recompute == Recompute::kBlock ? "" : " or set local.learner.recompute: block");
  }
  if (floats) return "set run.model.dtype: bfloat16";
  if (config.run.optim.precision != OptimPrecision::kStochastic)
    return "set run.optim.precision: stochastic";
  return "set local.learner.zero: auto with more ranks (local.launch.learner_ranks), or take a "
         "smaller model";
}

Result<ZeroStage> ChooseZeroStage(const RunConfig& config, const ModelConfig& model,
                                  std::int64_t ranks, double bytes) {
  const bool experts = config.local.learner.expert_parallel;
  if (experts) {
    const Status divide = CanDivideExperts(model, ranks);
    if (!divide.ok()) return divide.Annotate("local.learner.expert_parallel");
  }
  if (config.local.learner.zero != ZeroStage::kAuto) return config.local.learner.zero;
  const MicroBatchShape shape = FullMicroBatch(config, model);
  MemoryPlan plan;
  for (const ZeroStage stage : {ZeroStage::k0, ZeroStage::k1, ZeroStage::k2, ZeroStage::k3}) {
    if (ranks == 1 && stage != ZeroStage::k0) break;
    if (experts && ranks > 1 && stage != ZeroStage::k3) continue;
    plan = PlanLearnerMemory(config, model, shape, ranks, stage);
    if (plan.peak() <= bytes) return stage;
  }
  return InvalidArgument(fmt::format(
      "local.learner.zero: auto: no stage fits a job of {} ranks: a rank has {} and needs {}; {}",
      ranks, SizeText(bytes), DescribePlan(plan), AdviceFor(plan, config)));
}

}  // namespace buttress
