// N rows of a micro-batch, M scored tokens, D width, F width of an MLP, H and K heads of C values,
// V vocabulary.
#include "lib/checks/learner_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>

#include "lib/checks/findings.h"

namespace buttress {
namespace {

constexpr double kFloat = 4, kIndex = 8;  // bytes

// Of a GPU: the context and kernels of CUDA, workspaces of cuBLAS, buffers of NCCL.
constexpr double kCudaLibraries = 2.0 * (1 << 30);

// The sizes of the code that computes: short_kernels.h, packed_layout.h, logprobs.cc and
// optimizer.cc.
constexpr double kShortLength = 64, kShortHead = 128, kVarlenKeys = 65536, kLeastFill = 0.8;
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

bool HasAdapter(const LoraConfig& lora, LoraTarget target) {
  return std::ranges::any_of(lora.targets, [target](LoraTarget named) {
    return named == target || named == LoraTarget::kAll;
  });
}

// The adapters of a block (run.lora).
double AdapterSize(const LoraConfig& lora, const BlockSpec& block) {
  const std::int64_t q = block.attention.q_width(), kv = block.attention.kv_width();
  std::int64_t widths = 0;  // of inputs and outputs
  if (HasAdapter(lora, LoraTarget::kQ)) widths += block.D + q;
  if (HasAdapter(lora, LoraTarget::kK)) widths += block.D + kv;
  if (HasAdapter(lora, LoraTarget::kV)) widths += block.D + kv;
  if (HasAdapter(lora, LoraTarget::kO)) widths += q + block.D;
  for (const LoraTarget target : {LoraTarget::kGate, LoraTarget::kUp, LoraTarget::kDown})
    if (HasAdapter(lora, target)) widths += block.D + block.F;
  return Whole(lora.rank * widths);
}

std::vector<double> AdapterSizes(const LoraConfig& lora, const ModelConfig& model) {
  std::vector<double> sizes;
  for (const BlockSpec& block : model.blocks) sizes.push_back(AdapterSize(lora, block));
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

// The inputs of which products are kept for the gradient of a matrix or of an adapter.
struct KeptInputs {
  explicit KeptInputs(const LoraConfig& lora)
      : qkv(Of(lora, {LoraTarget::kQ, LoraTarget::kK, LoraTarget::kV})),
        out(Of(lora, {LoraTarget::kO})),
        gate_up(Of(lora, {LoraTarget::kGate, LoraTarget::kUp})),
        down(Of(lora, {LoraTarget::kDown})) {}

  static bool Of(const LoraConfig& lora, std::initializer_list<LoraTarget> targets) {
    return !lora.on() || std::ranges::any_of(targets, [&lora](LoraTarget target) {
      return HasAdapter(lora, target);
    });
  }

  bool qkv, out, gate_up, down;
};

// Sequences in padded rectangles, and all pairs of a row and a key in them.
struct Rectangles {
  double rows = 0;
  double alone = 0;     // rows of sequences that continue no prompt
  double key_rows = 0;  // of the others, with the prompt of each
  double pairs = 0;
  double pairs_behind = 0;  // prompts
  double largest = 0;       // pairs of a rectangle
  double later = 0;         // pairs of the rectangles that come after it
};

// As LayOutRectangles does.
Rectangles PadSequences(const MicroBatchShape& shape) {
  struct Sequence {
    double keys, rows;  // keys: 0 of one that continues no prompt

    auto operator<=>(const Sequence&) const = default;
  };

  std::vector<Sequence> order;
  for (const auto& [rows, prefix] : shape.sequences)
    order.push_back({prefix > 0 ? Whole(prefix + rows) : 0, Whole(rows)});
  std::ranges::sort(order, std::greater());
  Rectangles sums;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const Sequence& first = order[begin];
    const auto joins = [&first](const Sequence& next) {
      return (next.keys == 0) == (first.keys == 0) && next.rows <= first.rows &&
             next.rows / first.rows >= kLeastFill &&
             (next.keys == 0 || next.keys / first.keys >= kLeastFill);
    };
    while (end < order.size() && joins(order[end])) ++end;
    const auto count = static_cast<double>(end - begin);
    const double pairs = count * first.rows * (first.keys > 0 ? first.keys : first.rows);
    sums.rows += count * first.rows;
    (first.keys > 0 ? sums.key_rows : sums.alone) += count * std::max(first.keys, first.rows);
    sums.pairs += pairs;
    if (first.keys > 0) sums.pairs_behind += pairs;
    sums.later = pairs > sums.largest ? 0 : sums.later + pairs;
    sums.largest = std::max(sums.largest, pairs);
  }
  return sums;
}

// The forward and backward pass of a micro-batch.
class PassMemory {
 public:
  PassMemory(const RunSettings& run, const LearnerConfig& learner, const ModelConfig& model,
             const MicroBatchShape& shape)
      : run_(run),
        recompute_(learner.recompute),
        model_(model),
        kernels_(learner.device == ComputeDevice::kCpu),
        floats_(run.model.dtype == ModelDtype::kFloat32),
        bytes_(floats_ ? 4 : 2),
        keeps_(run.lora),
        moved_(shape.sequences.size() > 1),
        padded_(PadSequences(shape)),
        N_(Whole(shape.rows())),
        M_(Whole(shape.scored)) {
    for (const auto& [rows, prefix] : shape.sequences) {
      longest_ = std::max(longest_, Whole(rows + prefix));
      prefixed_ = prefixed_ || prefix > 0;
      keys_ += Whole(rows + prefix);
    }
  }

  void AddTo(MemoryPlan& plan) const {
    double kept = 0, block = 0, again = 0;  // what is computed again
    for (const BlockSpec& spec : model_.blocks) {
      const LayerBytes one = Block(spec);
      kept += Kept(spec, one);
      block = std::max({block, one.forward, one.backward, Gradients(spec) - one.kept});
      again = std::max(again, one.kept - Kept(spec, one));
    }
    // The last norm keeps its input and the rows that predict scored tokens, before and after it.
    const double head_rows = 2 * M_ * Whole(model_.hidden_size) * bytes_ + Norm(M_, D());
    plan.activations = kept + Values(model_.hidden_size) + head_rows + Mask();
    plan.block = again + block;
    plan.head = Head();
  }

 private:
  bool trained() const { return !run_.lora.on(); }

  // The gradients that a block ends with.
  double Gradients(const BlockSpec& spec) const {
    if (!trained()) return kFloat * AdapterSize(run_.lora, spec);
    return BlockParameters(spec) * bytes_ + (floats_ ? 0 : kFloat * LargestMatrix(spec));
  }

  // What a block keeps from the forward pass to the backward pass.
  double Kept(const BlockSpec& spec, const LayerBytes& all) const {
    if (recompute_ == Recompute::kBlock) return Values(spec.D);
    // The MLP, with the norm in front of it, begins from a copy of its input.
    if (recompute_ == Recompute::kSelective) {
      const double norm = keeps_.gate_up ? Values(spec.D) : 0;
      return all.kept - Mlp(spec) - norm - Norm(N_, Whole(spec.D));
    }
    return all.kept;
  }

  double D() const { return Whole(model_.hidden_size); }

  // Of a value for each row.
  double Values(double width) const { return N_ * width * bytes_; }

  double Values(std::int64_t width) const { return Values(Whole(width)); }

  // What RMSNorm keeps in addition to its input in the dtype of the model: the scale of a row. By
  // operators, which multiply by 1 + w on GPUs, also input and product in float32.
  double Norm(double rows, double width) const {
    if (kernels_ || !model_.final_norm.adds_one) return kFloat * rows;
    return rows * (kFloat + width * (kFloat + (floats_ ? 0 : kFloat)));
  }

  bool Short(const AttentionSpec& spec) const {
    return kernels_ && longest_ <= kShortLength && Whole(spec.C) <= kShortHead &&
           !spec.windowed(static_cast<std::int64_t>(longest_)) && spec.score_cap == 0;
  }

  // Whether rows are copied into rectangles, with a mask for sequences behind a prefix.
  bool Padded(const AttentionSpec& spec) const {
    return !Short(spec) && (kernels_ || floats_ || spec.score_cap > 0);
  }

  // The mask of completions behind their prompts, in bits of bool that all blocks share.
  double Mask() const {
    const bool masks = std::ranges::any_of(
        model_.blocks, [&](const BlockSpec& block) { return Padded(block.attention); });
    return masks ? padded_.pairs_behind : 0;
  }

  // What a block keeps of its scores: the mask as numbers, or all scores if they are capped.
  double Scores(const AttentionSpec& spec, double pairs) const {
    if (spec.score_cap == 0) return pairs * bytes_;
    return pairs * (Whole(spec.H) * (kFloat + bytes_ + (floats_ ? 0 : bytes_)) + 1);
  }

  // Queries, keys and values of the rows are counted by the block.
  LayerBytes Attention(const AttentionSpec& spec) const {
    const double q = Whole(spec.q_width()), kv = Whole(spec.kv_width());
    LayerBytes result;
    result.kept = Values(q) + kFloat * N_ * Whole(spec.H);
    result.backward = Values(2 * q + 2 * kv);  // the gradients of its output and its input
    if (Short(spec)) return result;
    if (!Padded(spec)) {
      // Gathered for the sequences of a part, and again for their gradients.
      const double gathered = prefixed_ ? std::min(keys_, kVarlenKeys) * 2 * kv * bytes_ : 0;
      result.forward = gathered;
      result.backward += 2 * gathered + (prefixed_ ? N_ * 2 * kv * kFloat : 0);
      return result;
    }
    const double filled = (padded_.rows - N_) * bytes_;  // of each value of a row
    const double key_rows = padded_.key_rows;
    // Keys and values are repeated for the query heads that share them.
    const double own = spec.H == spec.K ? 0 : padded_.alone;
    const double repeated = (own + key_rows) * 2 * q * bytes_;
    const bool capped = spec.score_cap > 0;
    const double scores = Scores(spec, capped ? padded_.pairs : padded_.pairs_behind);
    result.kept += repeated + scores + filled * (2 * q + 2 * kv);
    if (moved_ && keeps_.out) result.kept += Values(q);  // back in the order of the rows
    // The gradients of repeated rows; then, when these rows are freed, their sums in float32.
    const double sums = (key_rows * (bytes_ + kFloat) + (prefixed_ ? N_ * kFloat : 0)) * 2 * kv;
    result.backward +=
        filled * (2 * q + 2 * kv) + std::max(repeated, sums - scores - repeated - Values(2 * q));
    if (!capped) return result;
    // Scores before and after the cap, with and without mask, of one rectangle at a time.
    const double most = Whole(spec.H) * padded_.largest;
    result.forward =
        most * (floats_ ? 3 * kFloat : 3 * bytes_ + kFloat - bytes_) - Scores(spec, padded_.later);
    result.backward += most * (floats_ ? 2 * kFloat : 2 * kFloat - bytes_);
    return result;
  }

  double Mlp(const BlockSpec& block) const {
    const double F = Whole(block.F), D = Whole(block.D);
    const double width = (kernels_ ? 2 : 3) * F + (keeps_.down ? F : 0);
    if (block.experts.count == 0) return Values(width);
    const double chosen = Whole(block.experts.top_k), experts = Whole(block.experts.count);
    // Rows that are exchanged come, and are sorted.
    const double copies = (keeps_.gate_up ? 2 : 1) + (learner_.expert_parallel ? 2 : 0);
    return Values(chosen * (width + copies * D)) +
           N_ * ((floats_ || !trained() ? 0 : kFloat * D) + 2 * kFloat * experts +
                 4 * kIndex * chosen);
  }

  LayerBytes Block(const BlockSpec& block) const {
    const AttentionSpec& spec = block.attention;
    const double D = Whole(block.D),
                 F = Whole(block.F * std::max<std::int64_t>(1, block.experts.top_k));
    const double q = Whole(spec.q_width()), kv = Whole(spec.kv_width());
    const LayerBytes attention = Attention(spec);
    // Input and sum, the norms of both; queries with keys and values.
    const double norms = (keeps_.qkv ? D : 0) + (keeps_.gate_up ? D : 0);
    double kept =
        Values(2 * D + norms + q + 2 * kv) + 2 * Norm(N_, D) + attention.kept + Mlp(block);
    if (block.qk_norm && kernels_)
      kept += Values(q + 2 * kv) + kFloat * N_ * Whole(spec.H + spec.K);
    if (block.qk_norm && !kernels_)
      kept += Values(q + kv) + Norm(N_ * Whole(spec.H + spec.K), Whole(spec.C));
    if (!kernels_) kept += 2 * kFloat * N_ * Whole(spec.C);  // sines and cosines
    if (block.post_norms) kept += 2 * (Values(D) + Norm(N_, D));
    // In the forward pass the MLP comes last; in the backward pass it comes first, and frees what
    // it kept.
    const double matrix = trained() ? Whole(block.D * block.F) * bytes_ : 0;
    const double forward = attention.forward - Mlp(block) - Values(2 * D);
    const double mlp = Values(D + (kernels_ ? 2 : 3) * F) + matrix;
    const double mix = Values(D) + N_ * Whole(block.experts.top_k) * D * (2 * kFloat + bytes_);
    const double later = Values(D) + attention.backward - Mlp(block) + 3 * matrix;
    const LayerBytes adapters = Adapters(block);
    return {kept, std::max(forward, adapters.forward),
            std::max({mlp, mix, later, adapters.backward})};
  }

  // The products of adapters in float32, for the MLP, which has the widest rows.
  LayerBytes Adapters(const BlockSpec& block) const {
    if (trained() || block.experts.count > 0) return {};
    const double D = Whole(block.D), F = Whole(block.F);
    const double floats = kFloat * N_, copies = floats_ ? 0 : floats;  // of a value of each row
    LayerBytes result;
    // The product, what the adapters add to it, and their sum.
    if (keeps_.gate_up)
      result.forward = Values((floats_ ? 2 : 4) * F) + floats * 2 * F - Mlp(block);
    // The input and its gradient, the gradient of an output times the scale.
    if (keeps_.gate_up)
      result.backward = Values(2 * D + 2 * F) + floats * (D + F) + copies * (D + F) - Mlp(block);
    if (keeps_.down)
      result.backward =
          std::max(result.backward, Values(2 * D + F) + floats * (D + F) + copies * (D + F));
    return result;
  }

  // Logits exist for a block of the vocabulary at a time, or all are kept if there are few
  // (lib/policy/logprobs.h).
  double Head() const {
    const AlgorithmConfig& algorithm = run_.algorithm;
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
    const double gradients =
        M_ * D() * kFloat + (trained() ? columns * D() * (bytes_ + kFloat) : M_ * D() * bytes_);
    return std::max(forward, kept + (bonus ? 2 : 1) * block + capped + rounded + gradients);
  }

  const RunSettings& run_;
  const Recompute recompute_;
  const ModelConfig& model_;
  const bool kernels_;  // the row kernels of CPUs, else operators
  const bool floats_;
  const double bytes_;
  const KeptInputs keeps_;
  const bool moved_;  // into rectangles, and back
  const Rectangles padded_;
  const double N_;
  const double M_;
  double longest_ = 0;     // position
  bool prefixed_ = false;  // some sequence continues a prompt
  double keys_ = 0;        // rows with the prompts that they are behind
};

// "local.learner.micro_batch_tokens (16384)", and the other bound if it is set.
std::string BoundsOf(const LearnerConfig& learner) {
  std::string text =
      fmt::format("local.learner.micro_batch_tokens ({})", learner.micro_batch_tokens);
  if (learner.micro_batch_mib > 0)
    text += fmt::format(" or local.learner.micro_batch_mib ({})", learner.micro_batch_mib);
  return text;
}

}  // namespace

double MemoryPlan::state() const {
  return weights + gradients + masters + moments + reference + gathered + libraries;
}

double MemoryPlan::pass() const { return activations + std::max(block, head); }

double MemoryPlan::peak() const { return state() + std::max(pass(), update); }

MicroBatchShape FullMicroBatch(const RunConfig& config, const ModelConfig& model) {
  const SamplingConfig& sampling = config.run.sampling;
  const MicroBatchBound bound = BoundOf(config.run, config.local.learner, model);
  const std::int64_t T = sampling.max_tokens;
  const std::int64_t P = std::max<std::int64_t>(
      1, std::min(config.run.data.max_prompt_tokens, model.max_positions - T));
  MicroBatchShape shape;
  std::int64_t left = config.local.learner.micro_batch_tokens;
  // Adds `count` completions of so many tokens behind a prompt, if the bound holds with them.
  const auto add = [&](std::int64_t prompt, std::int64_t count, std::int64_t tokens) {
    const std::size_t sequences = shape.sequences.size();
    shape.AddGroup(prompt, std::vector<std::int64_t>(static_cast<std::size_t>(count), tokens),
                   count * tokens);
    if (bound.Holds(shape)) {
      left -= prompt + count * tokens;
      return true;
    }
    shape.sequences.resize(sequences);
    shape.scored -= count * tokens;
    return false;
  };
  std::int64_t groups = 0;
  for (std::int64_t count = sampling.group_size; groups < config.run.batch.prompts; ++groups) {
    count = std::min(count, (left - P) / T);
    while (count > 0 && !add(P, count, T)) --count;
    if (count <= 0) break;
  }
  if (groups == 0) {
    shape.AddGroup(P, std::vector<std::int64_t>{T}, T);
  } else if (groups < config.run.batch.prompts && left > 1) {
    const std::int64_t prompt = std::min(P, left - 1);
    add(prompt, 1, left - prompt);
  }
  return shape;
}

MicroBatchBound BoundOf(const RunSettings& run, const LearnerConfig& learner,
                        const ModelConfig& model) {
  if (learner.micro_batch_mib == 0) return {};
  return {[run, learner, model](const MicroBatchShape& shape) {
            MemoryPlan plan;
            PassMemory(run, learner, model, shape).AddTo(plan);
            return plan.pass();
          },
          static_cast<double>(learner.micro_batch_mib) * (1 << 20)};
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
  PassMemory(config.run, config.local.learner, model, shape).AddTo(plan);
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
    if (plan.head > plan.activations + plan.block) return "lower " + BoundsOf(learner);
    return fmt::format(
        "lower {}{}", BoundsOf(learner),
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
