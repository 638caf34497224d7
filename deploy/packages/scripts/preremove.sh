#!/bin/sh
# Copyright The pullwarden Authors.
# SPDX-License-Identifier: Apache-2.0

# Before the files go, containerd's unit runs the distribution's binary again: without that
# the node would have none. The removal fails where that containerd does not come up.
# dpkg calls it with remove, upgrade or deconfigure, and rpm with 0 for a removal.
set -e

dropin=/etc/systemd/system/containerd.service.d/50-pullwarden.conf

case "$1" in
remove | deconfigure | 0) ;;
*) exit 0 ;;
esac
# A run that was killed after it had removed the drop-in may have left ours running.
[ -e "$dropin" ] || [ -e /var/lib/pullwarden/pending.json ] || exit 0
if [ -d /run/systemd/system ]; then
	/usr/lib/pullwarden/pullwarden uninstall --yes
else # an image that is being built, or a chroot
	rm -f "$dropin"
	rmdir "${dropin%/*}" 2>/dev/null || true
fi
