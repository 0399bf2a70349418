#include "lib/policy/model_pass.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <utility>

#include "lib/policy/device_copy.h"

namespace buttress {
namespace {

using torch::autograd::variable_list;

// Begins the graph of the next unit.
at::Tensor Cut(const at::Tensor& x) {
  return x.detach().requires_grad_(at::GradMode::is_enabled());
}

// The gradients in `input` and in the parameters of the unit and `experts`, those undefined that
// `output` does not depend on.
variable_list GradientsIn(const ParameterUnit& unit, const std::vector<ParameterPiece>& experts,
                          const at::Tensor& input, const at::Tensor& output,
                          const at::Tensor& grad_output) {
  variable_list inputs = {input};
  for (const auto& [name, parameter] : unit.parameters) inputs.push_back(parameter);
  for (const ParameterPiece& expert : experts) inputs.push_back(expert.values);
  return torch::autograd::grad({output}, inputs, {grad_output}, /*retain_graph=*/std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace

ModelPass::ModelPass(Transformer& model, const PassTokens& tokens, const PassOptions& options)
    : model_(model), layout_(model.LayOutTokens(tokens.tokens_N, tokens.lengths, tokens.prefixes)) {
  const at::Device device = layout_.positions_N.device();
  at::Tensor own_N = tokens.tokens_N, rows_M = tokens.rows_M, targets_M = tokens.targets_M;
  if (options.context != nullptr) {
    share_.emplace(*options.context, tokens.tokens_N.size(0), tokens.rows_M);
    layout_.context = options.context;
    layout_.positions_N = share_->OwnRows(layout_.positions_N);
    own_N = share_->OwnRows(own_N);
    rows_M = share_->ScoredRows();
    targets_M = share_->Own(targets_M);
  }
  tokens_N_ = own_N;
  at::Tensor hidden_ND;
  {
    const at::NoGradGuard no_grad;
    hidden_ND = model.RunEmbedding(tokens_N_);
  }
  for (std::size_t block = 0; block < model.blocks(); ++block) {
    Graph graph{Cut(hidden_ND), {}, {}};
    const HeldUnit held = model.Hold(model.unit_of_block(block));
    model.Prefetch(block + 1 < model.blocks() ? model.unit_of_block(block + 1)
                                              : model.unit_of_norm());
    graph.output = RunBlock(block, options.recompute, graph);
    hidden_ND = graph.output;
    if (options.recompute != Recompute::kNone) graph.output.reset();
    if (at::GradMode::is_enabled()) blocks_.push_back(std::move(graph));
  }
  const HeldUnit norm = model.Hold(model.unit_of_norm());
  const HeldUnit head = model.Hold(model.unit_of_head());
  head_norm_.input = Cut(hidden_ND);
  head_norm_.output = model.RunNorm(RepeatRows(head_norm_.input, ToDevice(rows_M, device)));
  head_.emplace(model, head_norm_.output, ToDevice(targets_M, device), options);
  output_ = head_->output();
  if (share_) {
    output_.logprobs_M = share_->Gather(output_.logprobs_M);
    if (output_.entropy_M.defined()) output_.entropy_M = share_->Gather(output_.entropy_M);
  }
  output_.logprobs_M = Cut(output_.logprobs_M);
  if (options.entropy == EntropyMode::kDifferentiable) output_.entropy_M = Cut(output_.entropy_M);
}

// Returns the hidden states behind the block, and sets graph.middle if it is kept.
at::Tensor ModelPass::RunBlock(std::size_t block, Recompute recompute, Graph& graph) {
  if (recompute == Recompute::kNone) return model_.RunBlock(block, layout_, graph.input);
  if (recompute == Recompute::kSelective)
    graph.middle = model_.RunAttention(block, layout_, graph.input);
  const at::NoGradGuard no_grad;
  return graph.middle.defined() ? model_.RunMlp(block, graph.middle)
                                : model_.RunBlock(block, layout_, graph.input);
}

OutputGradient ModelPass::GradientOf(const at::Tensor& loss) const {
  variable_list leaves = {output_.logprobs_M};
  if (output_.entropy_M.defined() && output_.entropy_M.requires_grad())
    leaves.push_back(output_.entropy_M);
  variable_list gradients =
      torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/false, /*create_graph=*/false,
                            /*allow_unused=*/true);
  gradients.resize(2);
  return {gradients[0], gradients[1]};
}

void ModelPass::Backward(const OutputGradient& gradient, GradientSink& sink) {
  at::Tensor grad_ND = HeadBackward(gradient, sink);
  for (std::size_t block = model_.blocks(); block-- > 0;)
    grad_ND = BlockBackward(block, grad_ND, sink);
  EmbeddingBackward(grad_ND, sink);
}

at::Tensor ModelPass::HeadBackward(const OutputGradient& gradient, GradientSink& sink) {
  const std::size_t unit = model_.unit_of_norm();
  const HeldUnit norm = model_.Hold(unit);
  const HeldUnit table = model_.Hold(model_.unit_of_head());
  model_.Prefetch(model_.unit_of_block(model_.blocks() - 1));
  const bool trained = model_.units()[unit].trainable;
  // The gradient of a tied head belongs to the embedding.
  const bool tied = model_.config().tie_word_embeddings;
  const HeadPass::AddRows add = [&](std::int64_t first, const at::Tensor& rows) {
    tied ? sink.AddRows(0, 0, first, rows) : sink.AddRows(unit, 1, first, rows);
  };
  const auto own = [this](const at::Tensor& values_M) {
    return share_ && values_M.defined() ? share_->Own(values_M) : values_M;
  };
  const at::Tensor grad_MD =
      head_->Backward({own(gradient.logprobs_M), own(gradient.entropy_M)}, trained ? add : nullptr);
  head_.reset();
  variable_list inputs = {head_norm_.input};
  if (trained) inputs.push_back(model_.weights().final_norm_D);
  const variable_list found = torch::autograd::grad({head_norm_.output}, inputs, {grad_MD});
  if (!trained) return found[0];
  sink.Add(unit, 0, found[1]);
  sink.Done(unit);
  return found[0];
}

at::Tensor ModelPass::BlockBackward(std::size_t block, const at::Tensor& grad_ND,
                                    GradientSink& sink) {
  const std::size_t weights = model_.unit_of_block(block);
  const HeldUnit held = model_.Hold(weights);
  if (block > 0) model_.Prefetch(model_.unit_of_block(block - 1));
  // A block trains either its parameters or its adapters.
  const std::size_t unit = model_.adapters() == nullptr ? weights : model_.unit_of_adapters(block);
  const HeldUnit trained = model_.Hold(unit);
  Graph graph = std::exchange(blocks_[block], {});
  const ParameterUnit& parameters = model_.units()[unit];
  const std::vector<ParameterPiece> experts =
      unit == weights ? model_.own_experts(block) : std::vector<ParameterPiece>();
  variable_list found;
  if (graph.middle.defined()) {
    const at::Tensor middle_ND = Cut(graph.middle);
    found = GradientsIn(parameters, experts, middle_ND, model_.RunMlp(block, middle_ND), grad_ND);
    const variable_list first = GradientsIn(parameters, {}, graph.input, graph.middle, found[0]);
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].defined()) found[i] = first[i];
  } else {
    if (!graph.output.defined()) graph.output = model_.RunBlock(block, layout_, graph.input);
    found = GradientsIn(parameters, experts, graph.input, graph.output, grad_ND);
  }
  const std::size_t first_expert = 1 + parameters.parameters.size();
  for (std::size_t i = 0; i < experts.size(); ++i)
    sink.Add(unit + 1, experts[i].index, found[first_expert + i]);
  if (!experts.empty()) sink.Done(unit + 1);
  for (std::size_t i = 1; i < first_expert; ++i) sink.Add(unit, i - 1, found[i]);
  sink.Done(unit);
  return found[0];
}

void ModelPass::EmbeddingBackward(const at::Tensor& grad_ND, GradientSink& sink) {
  if (!model_.units()[0].trainable) return;
  const EmbeddingGradient gradient = model_.EmbeddingGradientOf(tokens_N_, grad_ND);
  sink.AddRowsAt(0, 0, gradient.rows_U, gradient.grad_UD);
  sink.Done(0);
}

}  // namespace buttress
