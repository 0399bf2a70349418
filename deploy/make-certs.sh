#!/usr/bin/env bash
# Makes what local.security names: an authority, a certificate and key for each host, and the run's token.
#
#   deploy/make-certs.sh DIR HOST...       HOST: a name or address that others reach the machine by; several of one machine: a,10.0.0.5
#   DIR/ca.pem DIR/token                   the same for all machines
#   DIR/<first name>.pem <first name>.key  for that machine alone
#   DIR/ca.key                             signs further hosts; keep it, give it to no machine
#
# Run again with the same DIR it keeps the authority and the token and adds hosts. DAYS (825) is how long certificates hold.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9p' "$0" | cut -c3- >&2; exit 2; }
dir=$1
shift
days=${DAYS:-825}
umask 077
mkdir -p "$dir"
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

if [ ! -e "$dir/ca.key" ]; then
  openssl req -x509 "${key[@]}" -keyout "$dir/ca.key" -out "$dir/ca.pem" -days "$days" -subj "/CN=buttress $(openssl rand -hex 4)" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
fi
[ -e "$dir/token" ] || openssl rand -hex 32 >"$dir/token"

for host in "$@"; do
  name=${host%%,*}
  [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ && $name != ca ]] || { echo "make-certs: '$name' is not a host name" >&2; exit 2; }
  # Programs of one machine also reach each other by loopback.
  names=DNS:localhost,IP:127.0.0.1,IP:::1
  for each in ${host//,/ }; do
    if [[ $each =~ ^[0-9.]+$ || $each == *:* ]]; then names+=",IP:$each"; else names+=",DNS:$each"; fi
  done
  request=$(mktemp)
  openssl req "${key[@]}" -keyout "$dir/$name.key" -out "$request" -subj "/CN=$name" 2>/dev/null
  openssl x509 -req -in "$request" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -set_serial "0x$(openssl rand -hex 16)" -days "$days" \
    -out "$dir/$name.pem" -extfile <(printf '%s\n' "subjectAltName=$names" basicConstraints=critical,CA:FALSE \
      keyUsage=critical,digitalSignature extendedKeyUsage=serverAuth,clientAuth) 2>/dev/null
  rm -f "$request"
  chmod 644 "$dir/$name.pem"
  echo "$dir/$name.pem: $names"
done
chmod 644 "$dir/ca.pem"
