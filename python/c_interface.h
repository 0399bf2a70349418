/* The C interface of Buttress for other languages: JSON in, JSON out. Every function is
   thread-safe. Functions and fields are added, never removed or changed. */
#ifndef BUTTRESS_PYTHON_C_INTERFACE_H
#define BUTTRESS_PYTHON_C_INTERFACE_H

#if defined(__cplusplus)
extern "C" {
#endif

/* Returns the version of the library, "0.1.0". The caller does not free it. */
__attribute__((visibility("default"))) const char* buttress_version(void);

/* Calls `function` with a JSON object of arguments, both UTF-8. Returns {"result": ...}, or
   {"error": "what, where, what was expected"}; buttress_free frees it. NULL: out of memory.
     advantages  {"groups": [GROUP, ...], "estimator", "settings": {...}, "seed", "step"} ->
                 {"advantages": [[number, ...], ...]}
     estimators  {} -> ["grpo", ...]
     acr         {"groups": [GROUP, ...]} -> {"acr": number or null, "groups", "classes": [...],
                 "all_correct", "all_wrong", "other_constant", "mixed", "unscorable"}
     verify      {"verifier", "settings": {...}, "response", "answer", "prompt", "row": {...},
                 "source", "truncated"} ->
                 {"outcome", "reward", "reason", "given", "gold", "anchor"}
   A GROUP has the fields of a line of `buttress advantages`: "rewards", in which null is
   unscorable, and, as an estimator needs them, "lengths", "outcomes", "components" and "history".
   Settings are those of run.algorithm and run.reward, as nested objects. */
__attribute__((visibility("default"))) char* buttress_call(const char* function,
                                                           const char* arguments);

__attribute__((visibility("default"))) void buttress_free(char* text);

#if defined(__cplusplus)
}
#endif

#endif
