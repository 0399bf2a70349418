// The Python programs that verifiers start, whose first lines say what they do.
#pragma once

#include <string_view>

namespace buttress {

extern const std::string_view kPythonAsserts;   // code/asserts.py
extern const std::string_view kPythonHarness;   // code/harness.py
extern const std::string_view kPythonValues;    // code/values.py
extern const std::string_view kPythonWorker;    // remote/python_worker.py
extern const std::string_view kSandboxEscapes;  // sandbox/escapes.py

}  // namespace buttress
