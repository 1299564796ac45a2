# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by the scripts beside it (source it): finds Python, makes the virtual environments under .venv/.
#
#   find_python 3.13                 prints the path of a working Python 3.13, or fails
#   core_environment [1.26]          prints the python of .venv/core: numpy and the test tools, no Blender; or of
#                                    .venv/core-1.26, the same with that numpy
#   kernel_needs Haswell             prints what a processor must have to run this kernel of OpenBLAS
#   check_environment                prints the python of .venv/check: ruff, pyright and all that they must see
#   site_environment                 prints the python of .venv/site: mkdocs
#   peers_environment                prints the python of .venv/peers: libraries that the bench compares with
#   plot_environment                 prints the python of .venv/plot: numpy and matplotlib
#   blender_environment 5.2          prints the python of .venv/blender-5.2: Blender as a module, tests, pictures
#   run_in_blender NAME MODULE ...   becomes a module of benchmarks/ or examples/, in the newest Blender there can be
#   run_module PYTHON MODULE ...     becomes a module, with paths in its arguments from the root of the project
#
# An environment is made once; a stamp with a hash of its pins (requirements/) says that it is complete.
set -euo pipefail
shopt -s inherit_errexit

# The solver's matrices are small: threads of the BLAS only wait for each other, on a busy machine for long.
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ENVIRONMENTS=$ROOT/.venv
TESTED_BLENDERS=(5.2 5.0 4.5) # newest first
KNOWN_BLENDERS=(5.2 5.1 5.0 4.5) # all that have pins
KNOWN_NUMPYS=(1.26) # besides the newest

# Nothing from the surroundings may leak into the environments, nor may anything fetch an interpreter.
unset PYTHONHOME PYTHONPATH
export PYTHONNOUSERSITE=1 UV_PYTHON_DOWNLOADS=never

say() { printf 'poise: %s\n' "$*" >&2; }
die() {
  printf 'poise: ERROR: %s\n' "$*" >&2
  exit 1
}

join() { printf '%s, ' "$@" | sed 's/, $//'; }

# ---------------------------------------------------------------- Python

# The Python that a Blender wants.
blender_python() {
  case $1 in
    4.5 | 5.0) echo 3.11 ;;
    5.1 | 5.2) echo 3.13 ;;
    *) die "Blender '$1' is not known here; known are 4.5, 5.0, 5.1 and 5.2." ;;
  esac
}

# Each candidate is run, since the name alone proves nothing: a pyenv shim exists and refuses.
find_python() {
  local version=$1 candidate found pyenv_root
  local candidates=("python$version" python3 python "/usr/bin/python$version" "/usr/local/bin/python$version")
  pyenv_root=${PYENV_ROOT:-${HOME-}/.pyenv}
  candidates+=("$pyenv_root/versions/$version".*/bin/python "${HOME-}/.local/share/uv/python/cpython-$version".*/bin/python)
  if command -v uv >/dev/null; then
    candidates+=("$(uv python find "$version" 2>/dev/null || true)")
  fi
  for candidate in "${candidates[@]}"; do
    command -v "$candidate" >/dev/null || continue
    found=$("$candidate" - "$version" 2>/dev/null <<'PYTHON' || true
import platform, sys, sysconfig
wanted = tuple(int(part) for part in sys.argv[1].split("."))
usual = platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
if sys.version_info[:2] == wanted and usual:
    print(getattr(sys, "_base_executable", None) or sys.executable)  # not that of an active environment
PYTHON
    )
    if [[ -n $found ]]; then
      echo "$found"
      return 0
    fi
  done
  return 1
}

# ---------------------------------------------------------------- Debian packages

# Install Debian packages, or say what to install. $1 is the reason.
install_packages() {
  local reason=$1
  shift
  if ! command -v apt-get >/dev/null; then
    die "$reason. Install what holds it (on Debian: $*) and run this again."
  elif ((EUID != 0)); then
    die "$reason, and only root may install packages. Run: sudo apt-get install $*"
  fi
  say "$reason; installing $*"
  mkdir -p "$ENVIRONMENTS"
  (
    flock 8 # two scripts may be started at once
    apt-get -qq update >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
  ) 8>"$ENVIRONMENTS/packages.lock"
}

# Blender as a module links with X11 and OpenGL even when it opens no window; a bare Debian has neither.
install_blender_libraries() {
  local module=$1 library packages=() unknown=()
  for library in $(ldd "$module" | awk '/not found/ {print $1}' | sort -u); do
    case $library in
      libEGL.so.1) packages+=(libegl1) ;;
      libGL.so.1) packages+=(libgl1) ;;
      libGLX.so.0) packages+=(libglx0) ;;
      libICE.so.6) packages+=(libice6) ;;
      libSM.so.6) packages+=(libsm6) ;;
      libX11.so.6) packages+=(libx11-6) ;;
      libX11-xcb.so.1) packages+=(libx11-xcb1) ;;
      libXext.so.6) packages+=(libxext6) ;;
      libXfixes.so.3) packages+=(libxfixes3) ;;
      libXi.so.6) packages+=(libxi6) ;;
      libXrender.so.1) packages+=(libxrender1) ;;
      libXt.so.6) packages+=(libxt6) ;;
      libXxf86vm.so.1) packages+=(libxxf86vm1) ;;
      libgomp.so.1) packages+=(libgomp1) ;;
      libstdc++.so.6) packages+=(libstdc++6) ;;
      libxkbcommon.so.0) packages+=(libxkbcommon0) ;;
      *) unknown+=("$library") ;;
    esac
  done
  if ((${#unknown[@]})); then
    say "Blender also wants ${unknown[*]}, of which no Debian package is known here."
  fi
  if ((${#packages[@]})); then
    install_packages "Blender's libraries are not all on this machine" "${packages[@]}"
  fi
}

# ---------------------------------------------------------------- processors

# What a processor must have to run a kernel of OpenBLAS, as /proc/cpuinfo calls it. On one that has it not numpy dies.
kernel_needs() {
  case $1 in
    Prescott) echo pni ;;
    Nehalem) echo pni ssse3 sse4_1 sse4_2 ;;
    Sandybridge) echo avx ;;
    Haswell | Zen) echo avx2 fma ;;
    SkylakeX) echo avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl ;;
    *) die "there is no kernel '$1' here; there are Prescott, Nehalem, Sandybridge, Haswell, Zen and SkylakeX." ;;
  esac
}

# kernel_missing NAME [CPUINFO]: what this machine's processor has not of what the kernel needs; nothing if it runs.
kernel_missing() {
  local needs has need missing=()
  needs=$(kernel_needs "$1")
  has=$(sed -n 's/^flags\s*://p;T;q' "${2-/proc/cpuinfo}" 2>/dev/null || true)
  for need in $needs; do
    [[ " $has " == *" $need "* ]] || missing+=("$need")
  done
  ((!${#missing[@]})) || join "${missing[@]}"
}

# kernel_settings NAME PYTHON: settings of the environment under which numpy computes as on a processor of that kind:
# the kernel, and none of the instructions that came later in numpy's own loops.
kernel_settings() {
  local later
  case $1 in
    Prescott | Nehalem) later='AVX|F16C|FMA|X86_V[34]' ;;
    Sandybridge) later='AVX2|AVX512|F16C|FMA|X86_V[34]' ;;
    Haswell | Zen) later='AVX512|X86_V4' ;;
    *) later='AVX512_(CLX|CNL|ICL|SPR)' ;;
  esac
  echo "OPENBLAS_CORETYPE=$1"
  "$2" - "$later" <<'PYTHON'
import re, sys, warnings
import numpy
warnings.simplefilter("ignore")
found = numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
print("NPY_DISABLE_CPU_FEATURES=" + " ".join(name for name in found if re.match(sys.argv[1], name)))
PYTHON
}

# ---------------------------------------------------------------- environments

# make_environment NAME PYTHON PINS...: prints the python of .venv/NAME, made anew if its pins changed.
make_environment() {
  local name=$1 python=$2
  shift 2
  local directory=$ENVIRONMENTS/$name files=("${@/#/$ROOT/requirements/}") arguments=() file version stamp
  for file in "${files[@]}"; do
    arguments+=(--requirement "$file")
  done
  version=$("$python" --version)
  stamp="$(cat "${files[@]}" "$ROOT/requirements/constraints.txt" | sha256sum | cut -c1-64) ${version%.*}"
  mkdir -p "$ENVIRONMENTS"
  (
    flock 9 # two scripts may be started at once
    if [[ $(cat "$directory/poise-stamp" 2>/dev/null) != "$stamp" ]] || ! "$directory/bin/python" -c '' 2>/dev/null; then
      say "making .venv/$name with $version (only the first time)"
      rm -rf "$directory"
      if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        install_packages "This Python cannot make virtual environments" \
          "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
      fi
      "$python" -m venv "$directory" >&2
      # Quiet to the point of errors only: what pip would warn of is about its own sources, not about us.
      "$directory/bin/python" -m pip install -qq --disable-pip-version-check --no-input --only-binary=:all: \
        --constraint "$ROOT/requirements/constraints.txt" "${arguments[@]}" >&2
      echo "$stamp" >"$directory/poise-stamp"
    fi
  ) 9>"$ENVIRONMENTS/lock"
  echo "$directory/bin/python"
}

# The newest Python of those that all of this runs on.
newest_python() {
  find_python 3.13 || find_python 3.11 || die "Python 3.13 or 3.11 is needed, and neither was found."
}

# The Python that a numpy other than the newest wants.
numpy_python() {
  case $1 in
    1.26) echo 3.11 ;;
    *) die "numpy '$1' is not known here; known is 1.26, the oldest. Without a number it is the newest." ;;
  esac
}

core_environment() {
  local numpy=${1-} wanted python
  if [[ -z $numpy ]]; then
    python=$(newest_python)
    make_environment core "$python" core.txt tests.txt library.txt javascript.txt
  else
    wanted=$(numpy_python "$numpy")
    python=$(find_python "$wanted") || die "numpy $numpy is tested with Python $wanted, and none was found."
    make_environment "core-$numpy" "$python" "core-$numpy.txt" tests.txt library.txt javascript.txt
  fi
}

check_environment() {
  local python
  python=$(newest_python)
  make_environment check "$python" core.txt tests.txt javascript.txt pictures.txt check.txt
}

reference_environment() {
  local python
  python=$(newest_python)
  make_environment reference "$python" core.txt reference.txt
}

site_environment() {
  local python
  python=$(newest_python)
  make_environment site "$python" site.txt
}

plot_environment() {
  local python
  python=$(newest_python)
  make_environment plot "$python" core.txt pictures.txt
}

peers_environment() {
  local python
  python=$(newest_python)
  make_environment peers "$python" core.txt peers.txt
}

blender_environment() {
  local version=$1 wanted python
  wanted=$(blender_python "$version")
  python=$(find_python "$wanted") || die "Blender $version needs Python $wanted, and none was found."
  python=$(make_environment "blender-$version" "$python" "blender-$version.txt" tests.txt pictures.txt)
  install_blender_libraries "$ENVIRONMENTS/blender-$version/lib/python$wanted/site-packages/bpy/__init__.so"
  echo "$python"
}

# The newest Blender for which there is a Python.
newest_blender() {
  local version
  for version in "${TESTED_BLENDERS[@]}"; do
    if find_python "$(blender_python "$version")" >/dev/null; then
      echo "$version"
      return 0
    fi
  done
  die "Blender needs Python 3.13 or 3.11, and neither was found."
}

# Blender shall not read, nor write, the settings and add-ons of whoever runs this.
isolate_blender() {
  export BLENDER_USER_RESOURCES=$ENVIRONMENTS/user-resources/$1
  rm -rf "$BLENDER_USER_RESOURCES"
  mkdir -p "$BLENDER_USER_RESOURCES"
}

# run_module PYTHON MODULE ARGUMENT...: becomes that module; paths in its arguments are from the root of the project.
run_module() {
  cd "$ROOT"
  exec "$1" -m "${@:2}"
}

# run_in_blender NAME MODULE ARGUMENT...: becomes that module, in the newest Blender there can be; NAME is that of its
# user folder.
run_in_blender() {
  local name=$1 version python
  shift
  version=$(newest_blender)
  python=$(blender_environment "$version")
  if [[ $version != "${TESTED_BLENDERS[0]}" ]]; then
    say "running Blender $version: Blender ${TESTED_BLENDERS[0]} needs Python $(blender_python "${TESTED_BLENDERS[0]}"), and none was found"
  fi
  isolate_blender "$name"
  run_module "$python" "$@"
}
