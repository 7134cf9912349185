#!/bin/sh
# A base image without a registry: Debian with its Python, out of Debian's packages.
#   base.sh IMAGE
set -eu
podman image exists "$1" && exit
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$folder" >&2
tar --directory "$folder" --exclude=./var/cache/apt --exclude=./var/lib/apt/lists --exclude=./dev --create . |
    podman import --quiet - "$1"
