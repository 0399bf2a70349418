// N rows of a micro-batch, M scored tokens, D width, F width of an MLP, H and K heads of C values,
// V vocabulary.
#include "lib/checks/pass_memory.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "lib/policy/context_heads.h"

namespace buttress {
namespace {

constexpr double kFloat = 4, kIndex = 8;  // bytes

// The sizes of the code that computes: short_kernels.h, packed_layout.h and logprobs.cc.
constexpr double kShortLength = 64, kShortHead = 128, kVarlenKeys = 65536, kLeastFill = 0.8;
constexpr double kVocabularyBlock = 4096, kBlockLogits = 1 << 26, kKeptLogits = 1 << 27;

double Whole(std::int64_t count) { return static_cast<double>(count); }

// `experts` is the share of its experts that counts.
double BlockParameters(const BlockSpec& block, double experts) {
  const AttentionSpec& attention = block.attention;
  const std::int64_t qkv = attention.q_width() + 2 * attention.kv_width();
  const double mlps = block.experts.count == 0 ? 1 : experts * Whole(block.experts.count);
  return Whole(block.D * (qkv + attention.q_width()) + (block.qkv_bias ? qkv : 0) +
               (block.out_bias ? block.D : 0) + (block.qk_norm ? 2 * attention.C : 0) +
               (block.post_norms ? 4 : 2) * block.D + block.experts.count * block.D) +
         mlps * Whole(3 * block.F * block.D);
}

// The largest parameter of a block.
double LargestMatrix(const BlockSpec& block) {
  return Whole(block.D * std::max(block.F, block.attention.q_width()));
}

// The adapters of a block (run.lora).
double AdapterSize(const LoraConfig& lora, const BlockSpec& block) {
  const std::int64_t q = block.attention.q_width(), kv = block.attention.kv_width();
  std::int64_t widths = 0;  // of inputs and outputs
  if (lora.has(LoraTarget::kQ)) widths += block.D + q;
  if (lora.has(LoraTarget::kK)) widths += block.D + kv;
  if (lora.has(LoraTarget::kV)) widths += block.D + kv;
  if (lora.has(LoraTarget::kO)) widths += q + block.D;
  for (const LoraTarget target : {LoraTarget::kGate, LoraTarget::kUp, LoraTarget::kDown})
    if (lora.has(target)) widths += block.D + block.F;
  return Whole(lora.rank * widths);
}

// The gradients of whole units whose sums over several ranks are on their way: at most two, next to
// which a rank has room for its parts of the sums (learner/step/grad_reducer.cc).
class PendingSums {
 public:
  // `units` are the values of the trained units, in the order of a forward pass. The sums of the
  // first two are on their way when a pass begins, because the one before it ended with them.
  PendingSums(std::vector<double> units, std::int64_t ranks)
      : units_(std::move(units)), of_ranks_(ranks > 1 ? kFloat * (1 + 1 / Whole(ranks)) : 0) {
    BeginSum(1);
    BeginSum(0);
  }

  void BeginSum(std::size_t unit) {
    if (unit >= units_.size()) return;
    first_ = std::exchange(second_, units_[unit]);
  }

  double bytes() const { return of_ranks_ * (first_ + second_); }

  // The gradient of a unit that is not complete; one rank has it whatever it computes.
  double Incomplete(std::size_t unit) const { return of_ranks_ > 0 ? kFloat * units_[unit] : 0; }

  std::size_t units() const { return units_.size(); }

 private:
  const std::vector<double> units_;
  const double of_ranks_;
  double first_ = 0, second_ = 0;
};

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
    return !lora.on() ||
           std::ranges::any_of(targets, [&lora](LoraTarget target) { return lora.has(target); });
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
             const MicroBatchShape& shape, std::int64_t ranks)
      : run_(run),
        divided_(learner.expert_parallel && ranks > 1),
        experts_(divided_ ? 1 / Whole(ranks) : 1),
        recompute_(learner.recompute),
        model_(model),
        kernels_(learner.device == ComputeDevice::kCpu),
        floats_(run.model.dtype == ModelDtype::kFloat32),
        bytes_(floats_ ? 4 : 2),
        keeps_(run.lora),
        moved_(shape.sequences.size() > 1),
        padded_(PadSequences(shape)),
        context_(learner.context_parallel),
        all_(Whole(shape.rows())),
        N_(all_ / Whole(context_)),
        M_(context_ == 1 ? Whole(shape.scored) : std::min(N_, Whole(shape.scored))) {
    for (const auto& [rows, prefix] : shape.sequences) {
      longest_ = std::max(longest_, Whole(rows + prefix));
      prefixed_ = prefixed_ || prefix > 0;
      keys_ += Whole(rows + prefix);
    }
  }

  // `sums` are those of the gradients of the trained units.
  PassBytes Plan(PendingSums sums) const {
    PassBytes plan;
    // The last norm keeps its input and the rows that predict scored tokens, before and after it.
    const double head_rows = 2 * M_ * Whole(model_.hidden_size) * bytes_ + Norm(M_, D());
    plan.activations = Values(model_.hidden_size) + head_rows + Mask();
    std::vector<LayerBytes> blocks;
    for (const BlockSpec& spec : model_.blocks) {
      blocks.push_back(Block(spec));
      plan.activations += Kept(spec, blocks.back());
    }
    const std::size_t first = trained() ? 1 : 0;  // unit of a block
    const bool tied = trained() && model_.tie_word_embeddings;
    double incomplete = trained() ? sums.Incomplete(tied ? 0 : sums.units() - 1) : 0;
    plan.head = sums.bytes() + std::max(HeadForward(), HeadBackward() + incomplete);
    if (trained()) sums.BeginSum(sums.units() - 1);
    if (!tied) incomplete = 0;
    double freed = 0;
    for (std::size_t b = blocks.size(); b-- > 0;) {
      const BlockSpec& spec = model_.blocks[b];
      const LayerBytes& one = blocks[b];
      const double kept = Kept(spec, one), again = one.kept - kept;
      const double end = Gradients(spec) + sums.Incomplete(first + b) - kept;
      plan.block =
          std::max(plan.block, sums.bytes() + incomplete - freed +
                                   std::max({again + one.forward, again + one.backward, end}));
      freed += kept;
      sums.BeginSum(first + b);
    }
    return plan;
  }

 private:
  bool trained() const { return !run_.lora.on(); }

  // The gradients that a block ends with.
  double Gradients(const BlockSpec& spec) const {
    if (!trained()) return kFloat * AdapterSize(run_.lora, spec);
    return BlockParameters(spec, experts_) * bytes_ + (floats_ ? 0 : kFloat * LargestMatrix(spec));
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

  // The same of the rows of all ranks that divide them.
  double OfAll(double width) const { return all_ * width * bytes_; }

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

  // Over all rows. Queries, keys and values of the rows are counted by the block.
  LayerBytes Attention(const AttentionSpec& spec) const {
    const double q = Whole(spec.q_width()), kv = Whole(spec.kv_width());
    LayerBytes result;
    result.kept = OfAll(q) + kFloat * all_ * Whole(spec.H);
    result.backward = OfAll(2 * q + 2 * kv);  // the gradients of its output and its input
    if (Short(spec)) return result;
    if (!Padded(spec)) {
      // Gathered for the sequences of a part, and again for their gradients.
      const double gathered = prefixed_ ? std::min(keys_, kVarlenKeys) * 2 * kv * bytes_ : 0;
      result.forward = gathered;
      result.backward += 2 * gathered + (prefixed_ ? all_ * 2 * kv * kFloat : 0);
      return result;
    }
    const double filled = (padded_.rows - all_) * bytes_;  // of each value of a row
    const double key_rows = padded_.key_rows;
    // Keys and values are repeated for the query heads that share them.
    const double own = spec.H == spec.K ? 0 : padded_.alone;
    const double repeated = (own + key_rows) * 2 * q * bytes_;
    const bool capped = spec.score_cap > 0;
    const double scores = Scores(spec, capped ? padded_.pairs : padded_.pairs_behind);
    result.kept += repeated + scores + filled * (2 * q + 2 * kv);
    if (moved_ && keeps_.out) result.kept += OfAll(q);  // back in the order of the rows
    // The gradients of repeated rows; then, when these rows are freed, their sums in float32.
    const double sums = (key_rows * (bytes_ + kFloat) + (prefixed_ ? all_ * kFloat : 0)) * 2 * kv;
    result.backward +=
        filled * (2 * q + 2 * kv) + std::max(repeated, sums - scores - repeated - OfAll(2 * q));
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
    const double copies = (keeps_.gate_up ? 2 : 1) + (divided_ ? 2 : 0);
    return Values(chosen * (width + copies * D)) +
           N_ * ((floats_ || !trained() ? 0 : kFloat * D) + 2 * kFloat * experts +
                 4 * kIndex * chosen);
  }

  LayerBytes Block(const BlockSpec& block) const {
    const AttentionSpec& spec = block.attention;
    const double D = Whole(block.D),
                 F = Whole(block.F * std::max<std::int64_t>(1, block.experts.top_k));
    // Of several ranks, each attends over all rows with its heads.
    const AttentionSpec own = HeadsOfRank(spec, context_);
    const double q = Whole(context_ * own.q_width()), kv = Whole(context_ * own.kv_width());
    LayerBytes attention = Attention(own);
    if (context_ > 1) {  // what is exchanged, before and after it
      attention.forward += 2 * Values(q + 2 * kv);
      attention.backward += 2 * Values(q + 2 * kv);
    }
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
  double columns() const {
    return std::min({Whole(model_.vocab_size), kVocabularyBlock, std::max(1.0, kBlockLogits / M_)});
  }

  double Logits() const { return M_ * columns() * kFloat; }

  double KeptLogits() const {
    const double all = M_ * Whole(model_.vocab_size);
    return all <= kKeptLogits ? all * kFloat : 0;
  }

  // What computing a block of logits takes besides the block: copies of the factors in float32, and
  // steps of the cap.
  double MakingLogits() const {
    return std::max(floats_ ? 0 : (M_ + columns()) * D() * kFloat,
                    model_.logit_cap > 0 ? 3 * Logits() : 0);
  }

  // Logits, what they are above the maximum, and the exponentials of that.
  double HeadForward() const {
    const double kept = KeptLogits();
    return std::max(kept + 2 * Logits(), std::max(kept, Logits()) + MakingLogits());
  }

  // The gradient of logits takes their place; it is rounded to the dtype of the model.
  double HeadBackward() const {
    const AlgorithmConfig& algorithm = run_.algorithm;
    const double kept = KeptLogits();
    const bool bonus = algorithm.entropy_coef > 0 || algorithm.adaptive_entropy.target > 0;
    const double again = kept > 0 ? 0 : MakingLogits();
    const double slope = model_.logit_cap > 0 ? 4 * Logits() : 0;
    const double rounded = floats_ ? 0 : M_ * columns() * bytes_;
    const double of_rows = floats_ ? 0 : M_ * D() * bytes_;
    const double of_table = trained() ? columns() * D() * bytes_ : 0;
    const double products = rounded + std::max(of_rows, of_table) - (floats_ ? 0 : Logits());
    return M_ * D() * kFloat + std::max(kept, Logits()) +
           std::max({again, slope, bonus ? Logits() : 0, rounded, products});
  }

  const RunSettings& run_;
  const bool divided_;    // the experts, over the ranks
  const double experts_;  // the share of them that a rank has
  const Recompute recompute_;
  const ModelConfig& model_;
  const bool kernels_;  // the row kernels of CPUs, else operators
  const bool floats_;
  const double bytes_;
  const KeptInputs keeps_;
  const bool moved_;  // into rectangles, and back
  const Rectangles padded_;
  const std::int64_t context_;  // ranks that divide the rows
  const double all_;
  const double N_;
  const double M_;
  double longest_ = 0;     // position
  bool prefixed_ = false;  // some sequence continues a prompt
  double keys_ = 0;        // rows with the prompts that they are behind
};

}  // namespace

std::vector<double> UnitSizes(const ModelConfig& model, double experts) {
  const double table = Whole(model.vocab_size * model.hidden_size);
  std::vector<double> sizes = {table};
  for (const BlockSpec& block : model.blocks) sizes.push_back(BlockParameters(block, experts));
  sizes.push_back(Whole(model.hidden_size) + (model.tie_word_embeddings ? 0 : table));
  return sizes;
}

std::vector<double> TrainedSizes(const LoraConfig& lora, const ModelConfig& model) {
  if (!lora.on()) return UnitSizes(model);
  std::vector<double> sizes;
  for (const BlockSpec& block : model.blocks) sizes.push_back(AdapterSize(lora, block));
  return sizes;
}

double PassBytesOf(const RunSettings& run, const LearnerConfig& learner, const ModelConfig& model,
                   const MicroBatchShape& shape) {
  const PassMemory memory(run, learner, model, shape, learner.expert_parallel ? 2 : 1);
  const PassBytes pass = memory.Plan(PendingSums(TrainedSizes(run.lora, model), 1));
  return pass.activations + std::max(pass.block, pass.head);
}

PassBytes PlanPass(const RunSettings& run, const LearnerConfig& learner, const ModelConfig& model,
                   const MicroBatchShape& shape, std::int64_t ranks) {
  const bool whole_only = learner.expert_parallel && !run.lora.on() && ranks > 1;
  const PendingSums sums(whole_only ? UnitSizes(model, 0) : TrainedSizes(run.lora, model), ranks);
  return PassMemory(run, learner, model, shape, ranks).Plan(sums);
}

}  // namespace buttress
