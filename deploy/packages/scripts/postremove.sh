#!/bin/sh
# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

# What was kept for a rollback goes with the package. Rule files and containerd's state stay.
set -e

case "$1" in
remove | purge | 0)
	rm -rf /usr/lib/pullwarden/previous
	rmdir /usr/lib/pullwarden 2>/dev/null || true
	;;
esac
