// `buttress serve` answers the OpenAI API with a model folder, in this process.
#pragma once

namespace buttress {

// Runs until SIGINT or SIGTERM. Returns the exit code.
int RunServe(int argc, char** argv);

}  // namespace buttress
