#!/bin/sh
# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

# Nothing is taken over and nothing restarted: that is for an operator to say.
set -e

case "$1" in
abort-*) exit 0 ;;
esac
if [ -e /etc/systemd/system/containerd.service.d/50-pullwarden.conf ]; then
	echo "pullwarden: the new containerd takes effect by: pullwarden install --yes"
else
	echo "pullwarden: have containerd's unit run it by: pullwarden install --yes (without --yes it shows what it would do)"
fi
