#!/usr/bin/env bash
# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes the release of HEAD twice, in two clones in folders of other names, and compares the
# bytes. TOOLS and ARCHES are as for release.sh.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git rev-parse HEAD) # of both, whatever is committed meanwhile
for folder in a another/folder; do
	git clone --quiet --no-hardlinks . "$work/$folder"
	git -C "$work/$folder" checkout --quiet "$commit"
	(
		cd "$work/$folder"
		mkdir -p build
		cp -r "$TOOLS" build/tools
		make release ARCHES="${ARCHES:-}" RELEASE_DIR="$work/$folder.release" GOFLAGS=
	)
done
cat "$work/a.release/SHA256SUMS"
if ! diff --recursive --brief "$work/a.release" "$work/another/folder.release"; then
	echo "two builds of one commit differ" >&2
	exit 1
fi
echo "two builds of ${commit:0:12} are the same"
