#!/usr/bin/env bash
# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes the release of this commit, for each minor of containerd and each architecture: a
# tarball, deb, rpm, an image for systemd-sysext, SBOMs and checksums. The same commit makes
# the same bytes, with the same Go and C compilers. `make release` calls it, in the root of
# the repository:
#
#	release.sh OUT MINOR…
#
# MODULE, NEWEST, PULLWARDEN_VERSION and REVISION are the Makefile's, ARCHES may name fewer
# architectures, and TOOLS is the folder with nfpm and cyclonedx-gomod.
set -euo pipefail

out=$1
shift
here=deploy/packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# A commit without a tag is older than every release.
version=${PULLWARDEN_VERSION#v}
if [[ ! "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]]; then
	version=0.0.0~$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$version
fi
version=${version/-rc/\~rc} # before the release itself, for dpkg and rpm
version=${version//-/.}

# Nothing of the caller's Go settings counts.
unset GOFLAGS CGO_CFLAGS CGO_LDFLAGS CGO_CPPFLAGS CGO_CXXFLAGS GOEXPERIMENT GODEBUG
export GOAMD64=v1 GOARM64=v8.0 GOOS=linux

declare -A compiler=([amd64]=x86_64-linux-gnu-gcc [arm64]=aarch64-linux-gnu-gcc)
declare -A machine=([amd64]=x86-64 [arm64]=arm64)
build=(go build -trimpath -buildvcs=false)

# binaries DIR MINOR ARCH: containerd needs cgo for its btrfs snapshotter, as the stock static
# release does; both are static.
binaries() {
	local dir=$1 modfile=go.mod arch=$3 containerd ours
	[[ "$2" == "$NEWEST" ]] || modfile=builds/containerd-$2.mod
	containerd=$(go list -modfile="$modfile" -m -f '{{.Version}}' "$MODULE")
	ours="-s -w -X $MODULE/version.Version=$containerd+pullwarden.$PULLWARDEN_VERSION -X $MODULE/version.Revision=$REVISION"
	ours+=" -X github.com/pullwarden/pullwarden/cmd/pullwarden/internal/cli.Version=$PULLWARDEN_VERSION"
	GOARCH=$arch CGO_ENABLED=1 CC=${compiler[$arch]} CGO_CFLAGS=-O2 "${build[@]}" -modfile="$modfile" \
		-tags 'osusergo netgo static_build urfave_cli_no_docs' \
		-ldflags "$ours -linkmode external -extldflags '-static -Wl,--build-id=none'" -o "$dir/containerd" ./cmd/containerd
	GOARCH=$arch CGO_ENABLED=0 "${build[@]}" -modfile="$modfile" -ldflags "$ours" -o "$dir/pullwarden" ./cmd/pullwarden
	for binary in containerd pullwarden; do
		if readelf --program-headers "$dir/$binary" | grep -q INTERP; then
			echo "$dir/$binary is not static" >&2
			return 1
		fi
	done
}

# documents DIR: man pages and completions, by this machine's own build of the command.
documents() {
	mkdir -p "$1/man" "$1/completions"
	GOARCH='' go run -buildvcs=false ./cmd/pullwarden/internal/manpages "$1/man"
	for page in "$1"/man/*; do gzip --best --no-name "$page"; done
	GOARCH='' go build -trimpath -buildvcs=false -o "$work/host-pullwarden" ./cmd/pullwarden
	for shell in bash zsh fish; do "$work/host-pullwarden" completion "$shell" >"$1/completions/$shell"; done
	cp LICENSE "$1/LICENSE"
}

# sbom BINARY FILE VERSION: CycloneDX, of what Go says is in the binary.
sbom() {
	"$TOOLS/cyclonedx-gomod" bin -json -std -noserial -version "$3" -output "$2.new" "$1" 2>/dev/null
	sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)\"/" "$2.new" >"$2"
	rm "$2.new"
}

# tarball DIR NAME: a folder from which `pullwarden install` runs.
tarball() {
	local root=$work/tar
	rm -rf "$root" && mkdir -p "$root/$2"
	cp -r "$1/containerd" "$1/pullwarden" "$1/man" "$1/completions" "$1/LICENSE" "$root/$2/"
	tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
		--format=gnu --directory "$root" "$2" | gzip --best --no-name >"$out/$2.tar.gz"
}

# sysext DIR NAME ARCH: the extension is called pullwarden, whatever its file is called here.
sysext() {
	local root=$work/sysext
	rm -rf "$root"
	mkdir -p "$root/usr/bin" "$root/usr/lib/pullwarden" "$root/usr/lib/extension-release.d" "$root/usr/lib/systemd/system/containerd.service.d"
	cp "$1/containerd" "$1/pullwarden" "$root/usr/lib/pullwarden/"
	ln -s ../lib/pullwarden/pullwarden "$root/usr/bin/pullwarden"
	echo "sysext $2" >"$root/usr/lib/pullwarden/package"
	cp "$here/sysext.conf" "$root/usr/lib/systemd/system/containerd.service.d/50-pullwarden.conf"
	printf 'ID=_any\nARCHITECTURE=%s\nEXTENSION_RELOAD_MANAGER=1\n' "${machine[$3]}" >"$root/usr/lib/extension-release.d/extension-release.pullwarden"
	mksquashfs "$root" "$out/$2.raw" -all-root -noappend -no-xattrs -no-progress -quiet -comp zstd -processors 1 >/dev/null
}

# packages DIR MINOR ARCH: deb and rpm.
packages() {
	local dir=$1 kind
	echo "package pullwarden-$2" >"$dir/package"
	touch --no-create --date="@$SOURCE_DATE_EPOCH" "$dir" "$dir"/* "$dir"/*/*
	for kind in deb rpm; do
		DIR=$dir MINOR=$2 ARCH=$3 VERSION=$version \
			"$TOOLS/nfpm" package --config "$here/nfpm.yaml" --packager "$kind" --target "$out/" >/dev/null
	done
}

mkdir -p "$out"
rm -f "$out"/pullwarden-* "$out"/SHA256SUMS
for minor in "$@"; do
	for arch in ${ARCHES:-amd64 arm64}; do
		name=pullwarden-$minor-$version-linux-$arch
		dir=$work/$minor-$arch
		mkdir -p "$dir"
		echo "$name"
		binaries "$dir" "$minor" "$arch"
		documents "$dir"
		for binary in containerd pullwarden; do sbom "$dir/$binary" "$out/$name.$binary.cdx.json" "$PULLWARDEN_VERSION"; done
		tarball "$dir" "$name"
		sysext "$dir" "$name" "$arch"
		packages "$dir" "$minor" "$arch"
		rm -rf "$dir"
	done
done
(cd "$out" && sha256sum -- pullwarden-* >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
