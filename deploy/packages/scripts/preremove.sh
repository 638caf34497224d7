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
# Without our drop-in another one may run our binary, or a run that was killed has left ours running:
# uninstall finds out, refuses the former, and does nothing where there is nothing to undo.
if [ -d /run/systemd/system ]; then
	/usr/lib/pullwarden/pullwarden uninstall --yes
elif [ -e "$dropin" ]; then # an image that is being built, or a chroot
	rm -f "$dropin"
	rmdir "${dropin%/*}" 2>/dev/null || true
fi
