# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by the scripts beside it (source it after _environment.sh): a Blender window and what drives it.
#
#   window_setup                     finds or makes it and says in one line which; fails, saying why, where it cannot
#   window_run COMMAND [ARGUMENT]... runs a command there, in the repository, after window_setup
#   window_blender                   prints which Blender that is
#
# In this order: programs that are installed; Debian's packages for this machine, where its Blender is new enough;
# else a Debian of its own in .venv/window, of the first release that has a Blender that is (for root, on Debian).
# Commands run in that one with chroot, without network, and whatever they start ends with them.

WINDOW_OLDEST=4.5
WINDOW_ROOT=$ENVIRONMENTS/window
WINDOW_PROGRAMS=(blender Xvfb xdotool)
WINDOW_PACKAGES=(blender xvfb xdotool)
# Blender's extensions need numpy, cattr and requests, which Debian's Blender only recommends; Pillow takes pictures.
WINDOW_EXTRAS=(libgl1-mesa-dri libegl1 python3-numpy python3-cattr python3-requests python3-pil)
WINDOW_RELEASES=(stable testing unstable)
WINDOW_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

window_kind= # "machine" or "root" after window_setup

window_cannot() {
  printf '\n!!! NO BLENDER WINDOW, so nothing was tested in one: %s\n' "$1" >&2
  printf '!!! Wanted: Blender %s or newer, Xvfb and xdotool on the PATH; or to be root on Debian, to get them.\n\n' "$WINDOW_OLDEST" >&2
  return 1
}

# window_new_enough VERSION: whether it is new enough.
window_new_enough() { [[ $(printf '%s\n' "$WINDOW_OLDEST" "$1" | sort -V | head -n 1) == "$WINDOW_OLDEST" ]]; }

# Not always the first line: warnings of what it finds on the machine may come before.
window_blender_version() { "$@" blender --version 2>/dev/null | sed -n 's/^Blender \([0-9][0-9.]*\).*/\1/p' || true; }

# What keeps the programs of this machine from being used; nothing if they can be.
window_missing_here() {
  local program version
  for program in "${WINDOW_PROGRAMS[@]}"; do
    command -v "$program" >/dev/null || echo "$program"
  done
  if command -v blender >/dev/null; then
    version=$(window_blender_version)
    window_new_enough "${version:-0}" || echo "blender (it is ${version:-none that starts})"
  fi
}

window_is_here() {
  window_kind=machine
  say "window: $(window_blender)"
}

window_blender() {
  if [[ $window_kind == root ]]; then
    echo "$(tail -n 1 "$WINDOW_ROOT/poise-stamp"), in .venv/window"
  else
    echo "Blender $(window_blender_version) of this machine"
  fi
}

window_setup() {
  local missing=() packages=() candidate
  mapfile -t missing < <(window_missing_here)
  if ((!${#missing[@]})); then
    window_is_here
    return 0
  fi
  window_root_ready && return 0
  command -v apt-get >/dev/null || { window_cannot "missing here: $(join "${missing[@]}"), and there is no apt-get" || return 1; }
  ((EUID == 0)) || { window_cannot "missing here: $(join "${missing[@]}"), and only root may install packages" || return 1; }
  apt-get -qq update >/dev/null 2>&1 || say "window: apt-get update fails; going by what it knew before"
  if [[ " ${missing[*]} " != *" blender "* ]]; then
    packages=(xvfb xdotool libgl1-mesa-dri)
  else
    candidate=$(apt-cache policy blender 2>/dev/null | sed -n 's/^ *Candidate: *//p')
    [[ -z $candidate || $candidate == "(none)" ]] || ! window_new_enough "$candidate" ||
      packages=("${WINDOW_PACKAGES[@]}" "${WINDOW_EXTRAS[@]}")
  fi
  if ((${#packages[@]})); then
    # In a process of its own: it ends the script where it fails.
    (install_packages "The window needs what is not on this machine (${missing[*]})" "${packages[@]}") || true
    mapfile -t missing < <(window_missing_here)
    if ((!${#missing[@]})); then
      window_is_here
      return 0
    fi
  fi
  window_make_root "${missing[@]}"
}

# ---------------------------------------------------------------- a Debian of its own

window_stamp() { printf '%s ' "$WINDOW_OLDEST" "${WINDOW_PACKAGES[@]}" "${WINDOW_EXTRAS[@]}"; }

window_root_ready() {
  [[ $(head -n 1 "$WINDOW_ROOT/poise-stamp" 2>/dev/null) == "$(window_stamp)" ]] && window_may_enter || return 1
  window_kind=root
  say "window: $(window_blender)"
}

window_may_enter() { ((EUID == 0)) && unshare --mount --pid --fork --net true 2>/dev/null; }

# The mirror from which this machine has its packages.
window_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "Debian" && $3 == "Debian" {print $1; exit}'
}

# How apt is set up here to fetch things: proxies, whether dates count.
window_apt_settings() {
  apt-config dump | grep -E '^Acquire::(Check-|http|https|ftp|Force|Retries)[^ ]* "[^"]+";$' || true
}

# window_release MIRROR FOLDER: the first release with a Blender that is new enough, and its version.
window_release() {
  local mirror=$1 folder=$2 release version
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  printf "deb [signed-by=$WINDOW_KEYRING] $mirror %s main\n" "${WINDOW_RELEASES[@]}" >"$folder/sources.list"
  local options=(
    -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$folder/lists"
    -o "Dir::Cache=$folder/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root
  )
  apt-get -qq "${options[@]}" update >/dev/null 2>&1 || true # some of them may be missing on this mirror
  for release in "${WINDOW_RELEASES[@]}"; do
    version=$(apt-cache "${options[@]}" madison blender 2>/dev/null | awk -F'|' -v in_release=" $release/" '
      index($3, in_release) {gsub(/ /, "", $2); print $2; exit}')
    if [[ -n $version ]] && window_new_enough "$version"; then
      echo "$release ${version%%[+-]*}"
      return 0
    fi
  done
  return 1
}

window_make_root() {
  local mirror release version found folder started=$SECONDS setting settings=() absent="missing here: $(join "$@")"
  window_may_enter || { window_cannot "$absent; and this machine lets nobody make namespaces (unshare) for a Debian beside it" || return 1; }
  mirror=$(window_mirror)
  [[ -n $mirror && -e $WINDOW_KEYRING ]] ||
    { window_cannot "$absent; apt offers no Blender that is new enough, and no mirror of Debian" || return 1; }
  command -v mmdebstrap >/dev/null ||
    (install_packages "The window needs a Debian of its own" mmdebstrap) ||
    { window_cannot "$absent; mmdebstrap could not be installed" || return 1; }
  mkdir -p "$ENVIRONMENTS"
  folder=$(mktemp -d)
  found=$(window_release "$mirror" "$folder" || true)
  rm -rf "$folder"
  [[ -n $found ]] || { window_cannot "$absent; no release on the mirror of this machine has Blender $WINDOW_OLDEST" || return 1; }
  read -r release version <<<"$found"
  say "window: making .venv/window, a Debian ($release) with Blender $version; a minute or two and 1.1 GB (only the first time)"
  while read -r setting; do
    settings+=("--aptopt=$setting")
  done < <(window_apt_settings)
  (
    flock 9 # two scripts may be started at once
    window_root_ready && exit # the other one has made it meanwhile
    rm -rf "$WINDOW_ROOT" && mkdir -p "$WINDOW_ROOT"
    mmdebstrap --mode=root --variant=apt --include="$(IFS=,; echo "${WINDOW_PACKAGES[*]},${WINDOW_EXTRAS[*]}")" \
      "${settings[@]}" --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
      --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
      --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/locale/languages' \
      --dpkgopt='path-include=/usr/share/locale/*/LC_MESSAGES/blender.mo' \
      "$release" "$WINDOW_ROOT" "deb [signed-by=$WINDOW_KEYRING] $mirror $release main" >"$WINDOW_ROOT.log" 2>&1 || exit
    window_kind=root
    version=$(window_blender_version window_run)
    window_new_enough "${version:-0}" || { echo "Blender does not start in it" >>"$WINDOW_ROOT.log" && exit 1; }
    printf '%s\nBlender %s of Debian %s\n' "$(window_stamp)" "$version" "$release" >"$WINDOW_ROOT/poise-stamp"
    say "window: made in $((SECONDS - started)) s, $(du -sh "$WINDOW_ROOT" | cut -f1)"
  ) 9>"$ENVIRONMENTS/window.lock" || {
    tail -n 5 "$WINDOW_ROOT.log" >&2
    window_cannot "$absent; a Debian of its own could not be made, see .venv/window.log" || return 1
  }
  window_kind=root
}

window_run() {
  local name variables=()
  for name in $(compgen -e | grep -E '^(POISE_|OPENBLAS_|OMP_)'); do
    variables+=("$name=${!name}")
  done
  if [[ $window_kind == machine ]]; then
    (cd "$ROOT" && "$@")
    return
  fi
  mkdir -p "$WINDOW_ROOT/poise"
  # Mounts are seen inside only, and are gone with the last process there.
  unshare --mount --pid --fork --kill-child --net --propagation private bash -c '
    set -e
    root=$1 repository=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t tmpfs tmpfs "$root/tmp"
    mount --bind "$repository" "$root/poise"
    exec chroot "$root" env -i "$@"
  ' window "$WINDOW_ROOT" "$ROOT" HOME=/tmp LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 "${variables[@]}" sh -c 'cd /poise && exec "$@"' sh "$@"
}
