#!/usr/bin/env bash
# Installs the programs that the end-to-end tests talk to, where that is possible without asking.
# Never fails: a test whose client is missing skips and says so.
set -euo pipefail

# program:package that brings it, on Debian and its descendants
wanted=(
  fio:fio nbdkit:nbdkit nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdsh:python3-libnbd
  qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils
  mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs
  fusermount3:fuse3 sqlite3:sqlite3 losetup:util-linux
)

PATH="$PATH:/usr/sbin:/sbin"
packages=()
missing=()
note() {
  local package="$2"
  missing+=("$1")
  case " ${packages[*]:-} " in
    *" $package "*) ;;
    *) packages+=("$package") ;;
  esac
}
for pair in "${wanted[@]}"; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || note "${pair%%:*}" "${pair##*:}"
done

# nbdfuse has a package of its own on newer systems and comes with libnbd-bin on older ones.
if ! command -v nbdfuse >/dev/null 2>&1; then
  if command -v apt-cache >/dev/null 2>&1 && apt-cache show nbdfuse >/dev/null 2>&1; then
    note nbdfuse nbdfuse
  else
    note nbdfuse libnbd-bin
  fi
fi

if [ "${#missing[@]}" -eq 0 ]; then
  echo "setup: every test client is installed"
  exit 0
fi
echo "setup: missing: ${missing[*]}"

by_hand() {
  echo "setup: $1; tests that need these programs will be skipped. To install them:"
  echo "    sudo apt-get install --no-install-recommends ${packages[*]}"
  exit 0
}
command -v apt-get >/dev/null 2>&1 || by_hand "no apt-get here"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  { command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; } || by_hand "no root rights"
  as_root=(sudo -n)
fi

apt=(timeout 300 env DEBIAN_FRONTEND=noninteractive apt-get
  -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
  -o DPkg::Lock::Timeout=60)
"${as_root[@]}" "${apt[@]}" -qq update || echo "setup: package lists could not be updated"
if ! "${as_root[@]}" "${apt[@]}" -qq install -y --no-install-recommends "${packages[@]}"; then
  # One package that does not exist must not keep the others away.
  for package in "${packages[@]}"; do
    "${as_root[@]}" "${apt[@]}" -qq install -y --no-install-recommends "$package" \
      || echo "setup: could not install $package"
  done
fi
exit 0
