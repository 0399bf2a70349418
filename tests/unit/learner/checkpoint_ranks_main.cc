// FOLDER STEP ZERO DTYPE PRECISION [--hide | --experts]: every rank reads the newest checkpoint of
// FOLDER, unless it is empty, checks each value of weights, masters and moments, and writes the
// checkpoint of STEP. The values depend on parameter and position alone, so that they are known at
// any number of ranks. With --hide the last rank has a folder of its own, as on another machine.
// With --experts the model has experts, which stay divided at stage 3.
#include <torch/types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "learner/output/checkpoint.h"
#include "learner/step/shards.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

constexpr std::chrono::seconds kTimeout{20};

// Calls visit(values, expected) for each parameter of what a rank holds.
template <class Visit>
void ForEachPiece(const Transformer& model, const AdamW& optimizer, Visit visit) {
  for (const HeldValues& held : HeldBy(model.units(), optimizer)) {
    const std::int64_t begin = held.BeginOn(model.share().rank);
    for (const ParameterPiece& piece : PiecesOf(*held.unit, held.values, begin)) {
      const auto& [name, tensor] = held.unit->parameters[piece.index];
      const std::string seed = held.kind + name;
      const auto first = static_cast<double>(piece.begin + std::hash<std::string>()(seed) % 1000);
      const at::Tensor expected =
          at::arange(first, first + static_cast<double>(piece.values.numel()), at::kDouble)
              .mul(1e-3)
              .to(piece.values.scalar_type());
      visit(held.kind + " of " + name, piece.values, expected);
    }
  }
}

Status CheckValues(const Transformer& model, const AdamW& optimizer) {
  Status status;
  ForEachPiece(model, optimizer,
               [&](const std::string& what, const at::Tensor& values, const at::Tensor& expected) {
                 if (!at::equal(values, expected)) status = DataLoss(what + " differs");
               });
  return status;
}

Status Run(Collective& group, char** argv, bool hide, bool experts) {
  BUTTRESS_ASSIGN_OR_RETURN(const ZeroStage stage, FindChoice<ZeroStage>(argv[3]));
  BUTTRESS_ASSIGN_OR_RETURN(const ModelDtype dtype, FindChoice<ModelDtype>(argv[4]));
  OptimConfig optim;
  BUTTRESS_ASSIGN_OR_RETURN(optim.precision, FindChoice<OptimPrecision>(argv[5]));
  const at::NoGradGuard no_grad;
  BUTTRESS_ASSIGN_OR_RETURN(const auto model,
                            Transformer::Random(experts ? SmallExpertsConfig() : SmallModelConfig(),
                                                dtype, {}, 7, ShareOf(group, stage, experts)));
  AdamW optimizer(model->units(), optim, 1, {DividesOptimizer(stage)});
  const bool hidden = hide && group.rank() == group.size() - 1;
  CheckpointStore store(std::string(argv[1]) + (hidden ? "-elsewhere" : ""), group, kTimeout);
  BUTTRESS_ASSIGN_OR_RETURN(const auto found, store.Find());
  if (found) {
    BUTTRESS_RETURN_IF_ERROR(store.Read(*found, model->units(), optimizer));
    BUTTRESS_RETURN_IF_ERROR(CheckValues(*model, optimizer));
    if (optimizer.steps() != 12) return DataLoss("the optimizer has made other steps");
  } else {
    ForEachPiece(*model, optimizer,
                 [](const std::string&, const at::Tensor& values, const at::Tensor& expected) {
                   at::Tensor(values).copy_(expected);
                 });
    optimizer.Resume(12);
  }
  CheckpointState state;
  state.step = std::atoi(argv[2]);
  BUTTRESS_RETURN_IF_ERROR(store.Begin(state, model->units(), optimizer));
  BUTTRESS_RETURN_IF_ERROR(store.Finish(/*wait=*/true).status());
  if (group.rank() == 0)
    std::printf("%d ranks: %s step %lld\n", group.size(), found ? "read and wrote" : "wrote",
                static_cast<long long>(state.step));
  return OkStatus();
}

int Main(int argc, char** argv) {
  const bool hide = argc == 7 && std::strcmp(argv[6], "--hide") == 0;
  const bool experts = argc == 7 && std::strcmp(argv[6], "--experts") == 0;
  if (argc != 6 && !hide && !experts) return 2;
  at::set_num_threads(1);
  auto group = MakeMpiCollective(kTimeout);
  if (!group.ok()) return 1;
  const Status status = Run(**group, argv, hide, experts);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank %d: %s\n", (*group)->rank(), status.ToString().c_str());
  (*group)->Abort();
  return 1;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main(argc, argv); }
