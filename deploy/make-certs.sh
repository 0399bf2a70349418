#!/usr/bin/env bash
# Makes the files that local.security names: an authority, a certificate and key for each host, and
# a token for each role.
#
#   deploy/make-certs.sh DIR HOST...
#
#   HOST                            the name or address of a machine; several names: a,10.0.0.5
#   DIR/ca.pem                      equal for all machines
#   DIR/<role>.token                worker, learner, operator, monitor; docs/machines.md says
#                                   which machine needs which
#   DIR/<name>.pem DIR/<name>.key   for one machine, by its first name
#   DIR/ca.key                      signs further hosts; stays private
#
# A second call with the same DIR keeps the authority and the tokens and adds hosts. DAYS (825) is
# the lifetime of the certificates.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,15p' "$0" | cut -c3- >&2; exit 2; }
dir=$1
shift
days=${DAYS:-825}
umask 077
mkdir -p "$dir"
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

if [ ! -e "$dir/ca.key" ]; then
  openssl req -x509 "${key[@]}" -keyout "$dir/ca.key" -out "$dir/ca.pem" -days "$days" \
    -subj "/CN=buttress $(openssl rand -hex 4)" \
    -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
fi
for role in worker learner operator monitor; do
  [ -e "$dir/$role.token" ] || openssl rand -hex 32 >"$dir/$role.token"
done

for host in "$@"; do
  name=${host%%,*}
  if [[ ! $name =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ || $name == ca ]]; then
    echo "make-certs: '$name' is not a host name" >&2
    exit 2
  fi
  # Programs on one machine also reach each other through loopback.
  names=DNS:localhost,IP:127.0.0.1,IP:::1
  for each in ${host//,/ }; do
    kind=DNS
    if [[ $each =~ ^[0-9.]+$ || $each == *:* ]]; then kind=IP; fi
    names+=",$kind:$each"
  done
  request=$(mktemp)
  openssl req "${key[@]}" -keyout "$dir/$name.key" -out "$request" -subj "/CN=$name" 2>/dev/null
  openssl x509 -req -in "$request" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$days" -out "$dir/$name.pem" \
    -extfile <(printf '%s\n' "subjectAltName=$names" basicConstraints=critical,CA:FALSE \
      keyUsage=critical,digitalSignature extendedKeyUsage=serverAuth,clientAuth) 2>/dev/null
  rm -f "$request"
  chmod 644 "$dir/$name.pem"
  echo "$dir/$name.pem: $names"
done
chmod 644 "$dir/ca.pem"
