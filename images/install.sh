#!/bin/sh
# Fills /opt/venv, the Python environment of an image; the Dockerfiles run it, one layer a call.
#   install.sh packages    what the locks in /context name, each file by its hash
#   install.sh project     the project itself
# Wheels that pip is to prefer lie in /wheels. pip itself is in neither layer: what is installed is what the locks name.
set -eu
cd /context
export TMPDIR=/tmp PIP_CACHE_DIR=/var/cache/pip PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# Python's own pip, in an environment that goes when this script ends.
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
python3 -m venv "$tool"

pip() {
    "$tool/bin/python" -m pip --python /opt/venv/bin/python "$@"
}

locked() {
    pip install --quiet --no-deps --no-build-isolation --require-hashes \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} --requirement "$1.lock"
}

# Byte code is compiled on all cores, which pip does on one; of the hundreds of architectures only a few are used.
compile() {
    python -m compileall -qq -j 0 -x '/tests?/|/transformers/models/(?!auto|bert)' /opt/venv/lib || true
}

packages() {
    python3 -c 'import sys
if sys.version_info[:2] != (3, 11):
    sys.exit(f"the locks are for Python 3.11, and the base image has {sys.version.split()[0]}")'
    python3 -m venv --without-pip /opt/venv
    locked build
    locked requirements
    pip check
    if [ -e steps.lock ]; then
        locked steps
        PATH="$PATH:$tool/bin" python sentence_data.py
    fi
    compile
    # A user by number, so that Kubernetes can tell that it is not root. Whatever user runs may write to /scratch.
    useradd --uid 10001 --no-log-init --no-create-home --home-dir /scratch --shell /usr/sbin/nologin multiview
    install --directory --owner 10001 --group 10001 --mode 1777 /scratch
}

project() {
    mv src/README.md .
    pip install --quiet --no-deps --no-build-isolation .
    rm -r build src
    compile
}

"$@"
