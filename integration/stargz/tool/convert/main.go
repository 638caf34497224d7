// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command convert makes an eStargz layer of a tar archive.
//
//	convert TAR LAYER
//
// It prints the digest of the layer's table of contents, which a manifest has in the
// annotation containerd.io/snapshot/stargz/toc.digest.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/containerd/stargz-snapshotter/estargz"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: convert TAR LAYER")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func convert(from, to string) (err error) {
	archive, err := os.Open(from)
	if err != nil {
		return err
	}
	defer archive.Close()
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	blob, err := estargz.Build(io.NewSectionReader(archive, 0, info.Size()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	layer, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(layer, blob)
	if err := errors.Join(err, layer.Close()); err != nil {
		return err
	}
	_, err = fmt.Println(blob.TOCDigest())
	return err
}
