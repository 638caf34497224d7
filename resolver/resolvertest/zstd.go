// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import "bytes"

// Zstd returns a frame of zstd (RFC 8878) that is decoded to that many MiB of one byte, by a window of 1 KiB << window. It
// takes 32 bytes for each MiB.
func Zstd(window byte, mib int, content byte) []byte {
	const raw, run, last = 0, 1 << 1, 1 // of the header of a block: 128 KiB of one byte each, and nothing
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window << 3}
	frame = append(frame, bytes.Repeat([]byte{run, 0, 0x10, content}, 8*mib)...)
	return append(frame, raw|last, 0, 0)
}
