// The environment of the launcher that started it: mpirun, srun or another. Nothing here
// depends on one launcher's way to number the processes of a machine.
#pragma once

#include <chrono>
#include <string>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// The job as the environment describes it.
struct Launch {
  std::string launcher;  // "mpirun"; empty if no launcher is known
  int ranks = 1;
};

// Reads the variables of mpirun (Open MPI), srun, PMI launchers and torchrun, in this order.
Launch ReadLaunch();

// Checks that `collective` has as many ranks as the launcher started processes. A launcher that the
// MPI library cannot talk to starts jobs of one rank each, which would all train the same run.
// kInvalidArgument names both numbers and the fix.
Status CheckWorld(const Launch& launch, const Collective& collective);

// The place of a rank among the ranks of its machine, in rank order.
struct LocalPlace {
  int rank = 0;
  int size = 1;
};

// Compares the machines of all ranks, by boot id and host name, so that containers with network
// namespaces of their own count as machines. Every rank calls it.
Result<LocalPlace> FindLocalPlace(Collective& collective, std::chrono::milliseconds timeout);

// Returns the GPU of the rank at `place`, of `visible` GPUs: its own rank, or GPU 0 if the launcher
// shows each rank only one. With `share`, ranks take the GPUs in turn; without, kInvalidArgument if
// the machine has more ranks than GPUs.
Result<int> ChooseDevice(LocalPlace place, int visible, bool share);

// Compares the UUIDs of the GPUs that the ranks chose: a launcher that shows one GPU to each rank
// may show the same one. Every rank calls it. kInvalidArgument names the ranks and the fix.
Status CheckGpusDiffer(const std::string& uuid, Collective& collective,
                       std::chrono::milliseconds timeout);

}  // namespace buttress
