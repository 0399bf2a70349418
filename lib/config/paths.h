// The settings that are paths, and what a relative one means.
#pragma once

#include <functional>
#include <string>

namespace YAML {
class Node;
}  // namespace YAML

namespace buttress {

// Replaces each path in a tree of the sections `run` and `local` by what `f` makes of it. The FILE
// of a verifier python:FILE:FUNCTION is a path; a program without a slash and an empty text are
// not.
void ForEachPath(const YAML::Node& root, const std::function<std::string(const std::string&)>& f);

// Returns `path` as an absolute one without "." and "..". A relative one begins at `folder`, and an
// empty `folder` is the current one. A first part "~" is $HOME, where that is set.
std::string AbsolutePath(const std::string& path, const std::string& folder = "");

// Whether a text has the form of a name of Hugging Face's hub: two words of letters, digits, '-',
// '_' and '.' with one slash between them. A relative path may have it too.
bool IsHubName(const std::string& text);

// Returns the last part of a path: "train.jsonl".
std::string FileNameOf(const std::string& path);

// Returns the text of a verifier with file names instead of paths: "python:rewards.py:accuracy".
std::string WithFileNames(const std::string& verifier);

}  // namespace buttress
