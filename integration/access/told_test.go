// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/content"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// everythingTold returns all that the daemon lets be seen: its log, its files,
// the labels of images and of content, and its metrics at that address.
func everythingTold(n *nodetest.Node, metrics string) map[string][]byte {
	n.T.Helper()
	ctx, cancel := context.WithTimeout(n.T.Context(), time.Minute)
	defer cancel()
	told := map[string][]byte{}
	err := filepath.WalkDir(n.Path(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the daemon has removed it meanwhile
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		told[path] = b
		return err
	})
	n.Must(err)
	all, err := n.Client.ImageService().List(ctx)
	n.Must(err)
	told["image records"] = fmt.Append(nil, all)
	var infos []content.Info
	n.Must(n.Client.ContentStore().Walk(ctx, func(i content.Info) error {
		infos = append(infos, i)
		return nil
	}))
	told["content"] = fmt.Append(nil, infos)
	told["metrics"] = []byte(n.Scrape(metrics))
	for _, img := range all {
		status := n.Status(img.Name)
		told["status of "+img.Name] = fmt.Append(nil, status)
	}
	return told
}
