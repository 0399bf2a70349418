#!/usr/bin/env bash
# Builds the image that deploy/Containerfile describes, with podman or docker ($ENGINE), and writes
# its SBOM (docs/images.md):
#
#   deploy/image.sh [cpu|cuda] [OPTION ...]
#
#   --debootstrap   make the base from Debian's packages, as root, instead of pulling an image
#   --newest        take the newest packages of Debian 12, not those that image-packages.txt pins
#   --pin           write the versions of this image to image-packages.txt
#   --tag TAG       default: buttress:VERSION, or buttress:VERSION-cuda
#   --stage         only fill build/image/VARIANT, the folder for `docker build`
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
say() { printf 'image: %s\n' "$*"; }
fail() { printf 'image: %s\n' "$*" >&2; exit 3; }

variant=cpu base=docker.io/library/debian:12-slim
debootstrap='' newest='' pin='' tag='' stage_only=''
while [ $# -gt 0 ]; do
  case $1 in
    cpu | cuda) variant=$1 ;;
    --debootstrap) debootstrap=yes base=localhost/debian:12-slim ;;
    --newest) newest=yes ;;
    --pin) pin=yes newest=yes ;;
    --tag) tag=${2:?--tag needs a name}; shift ;;
    --stage) stage_only=yes ;;
    --help) sed -n '2,12p' "$0" | cut -c3-; exit 0 ;;
    *) echo "image: unknown argument '$1'; see deploy/image.sh --help" >&2; exit 2 ;;
  esac
  shift
done
version=$(sed -n 's/^project(buttress VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
revision=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
suffix=$([ $variant = cpu ] || echo "-$variant")
tag=${tag:-buttress:$version$suffix}
context=$root/build/image/$variant

stage() {
  "$here/stage.sh" "$context" $variant
  mkdir -p "$context/ssh" "$context/share"
  cp "$here/image/ssh_config" "$here/image/sshd_config" "$context/ssh/"
  cp "$here/quickstart-data.sh" "$context/share/"
  cp "$here/Containerfile" "$context/Containerfile"
  if [ -n "$newest" ]; then
    sed 's/=.*//' "$here/image-packages.txt" >"$context/packages.txt"
  else
    cp "$here/image-packages.txt" "$context/packages.txt"
  fi
}

# What debian:12-slim is: the packages that every Debian has, without documentation.
make_base() {
  ! "$engine" image inspect "$base" >/dev/null 2>&1 || return 0
  [ "$(id -u)" = 0 ] || fail "debootstrap needs root"
  command -v debootstrap >/dev/null || fail "no debootstrap; run deploy/setup.sh --image"
  local folder
  folder=$(mktemp -d)
  say "making $base with debootstrap"
  debootstrap --variant=minbase bookworm "$folder" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root/build/image/debootstrap.log" 2>&1 ||
    fail "debootstrap failed; see build/image/debootstrap.log"
  printf 'deb http://deb.debian.org/debian bookworm%s main\n' '' -updates \
    >"$folder/etc/apt/sources.list"
  echo 'deb http://deb.debian.org/debian-security bookworm-security main' \
    >>"$folder/etc/apt/sources.list"
  rm -rf "$folder"/usr/share/{doc,man,locale,info}/* "$folder"/var/{cache,log,lib/apt/lists}/*
  tar -C "$folder" -c . | "$engine" import - "$base" >/dev/null
  rm -rf "$folder"
}

build() {
  local arguments=(build --network host --build-arg "BASE=$base" --build-arg "VERSION=$version"
    --build-arg "REVISION=$revision" --tag "$tag" --file "$context/Containerfile" "$context")
  "$engine" "${arguments[@]}" >"$context.log" 2>&1 && return
  tail -n 15 "$context.log" >&2
  grep -q "Version .* was not found" "$context.log" &&
    fail "Debian has replaced a pinned package; use --newest, or --pin to write new pins"
  fail "$engine build failed; whole log: $context.log"
}

# Writes the versions of the image's packages to image-packages.txt.
pin_packages() {
  local package
  grep '^#' "$here/image-packages.txt" >"$context/pinned.txt"
  for package in $(grep -v '^#' "$context/packages.txt"); do
    awk -F '\t' -v package="$package" '$1 == package {print $1 "=" $2}' "$context/dpkg.tsv"
  done >>"$context/pinned.txt"
  cp "$context/pinned.txt" "$here/image-packages.txt"
}

mkdir -p "$root/build/image"
stage
say "programs and libraries in $context"
[ -z "$stage_only" ] || exit 0
engine=${ENGINE:-$(command -v podman || command -v docker || true)}
[ -n "$engine" ] || fail "neither podman nor docker; run deploy/setup.sh --image"
[ -z "$debootstrap" ] || make_base
start=$SECONDS
build
"$engine" run --rm --network none "$tag" \
  dpkg-query -W -f '${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\n' |
  sed 's/:amd64//' >"$context/dpkg.tsv"
[ -z "$pin" ] || pin_packages
lists=("$here/wheels.txt" "$here/wheels-arrow.txt")
[ $variant = cpu ] || lists+=("$here/wheels-cuda.txt")
python3 "$here/sbom.py" --name "$tag" --version "$version" --revision "$revision" \
  --debian "$context/dpkg.tsv" --wheels "${lists[@]}" --out "$context/sbom.spdx.json"
bytes=$("$engine" image inspect --format '{{.Size}}' "$tag")
say "$tag: $((bytes / 1000000)) MB, $((SECONDS - start)) s; SBOM in $context/sbom.spdx.json"
