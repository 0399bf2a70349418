// Settings of `buttress launch` and of the trackers that it feeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buttress {

struct LaunchConfig {
  std::int64_t workers = 1;
  std::int64_t learner_ranks = 1;
  std::int64_t max_restarts = 5;
  std::int64_t stop_timeout_ms = 20000;
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_args;

  template <class V>
  void Visit(V& v) {
    v("workers", workers, "rollout workers that `buttress launch` starts");
    v("learner_ranks", learner_ranks, "ranks of the learner job");
    v("max_restarts", max_restarts, "restarts of a role before the run is given up");
    v("stop_timeout_ms", stop_timeout_ms, "time for a clean stop before processes are killed");
    v("mpirun", mpirun, "program that starts the learner ranks");
    v("mpirun_args", mpirun_args, "further arguments of it: hostfile, interfaces");
  }
};

struct TrackConfig {
  bool tensorboard = false;
  std::string mlflow;
  std::string experiment = "buttress";
  std::string wandb;
  std::string interpreter = "python3";

  // Whether the curves are shown anywhere.
  bool any() const { return tensorboard || !mlflow.empty() || !wandb.empty(); }

  template <class V>
  void Visit(V& v) {
    v("tensorboard", tensorboard, "write event files to <out>/tensorboard");
    v("mlflow", mlflow,
      "http://host:port of an MLflow server; a token is read from MLFLOW_TRACKING_TOKEN; empty: "
      "none");
    v("experiment", experiment, "experiment of the MLflow server; made if there is none");
    v("wandb", wandb,
      "project of Weights & Biases, whose package reads WANDB_API_KEY, WANDB_ENTITY and "
      "WANDB_MODE; "
      "empty: none");
    v("interpreter", interpreter,
      "Python that has the packages of the trackers: tensorboard, mlflow, wandb");
  }
};

}  // namespace buttress
