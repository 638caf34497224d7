// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"

	"github.com/containerd/containerd/v2/cmd/ctr/app"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/internal/cliapp"
)

// ctrMain is containerd's ctr, which this binary is when its first argument is
// "ctr": ctr writes to standard output, and nobody has to have it installed.
func ctrMain(args []string) int {
	if err := cliapp.Run(context.Background(), app.New(), args); err != nil {
		fmt.Fprintln(os.Stderr, "ctr:", err)
		return 1
	}
	return 0
}

// digestIndent is before a digest that fills a line, in columns.
const digestIndent = 8

// closing shows what ctr lists, on narrower lines than ctr's.
func closing(ctx context.Context, w *world, out *printer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	filter := "name~=" + tag
	cmd := exec.CommandContext(ctx, self, "ctr", "--address", w.node.Address(), "-n", node.Namespace, "images", "ls", filter) //nolint:gosec // this binary
	listing, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return fmt.Errorf("list the images with ctr: %w", err)
	}
	images, err := parseListing(string(listing))
	if err != nil {
		return err
	}
	out.listing(fmt.Sprintf("ctr -n %s images ls %s", node.Namespace, filter), images)
	return nil
}

// image is a line of ctr's listing: column by column, the labels last.
type image struct {
	columns [][2]string // header, value
	labels  []string
}

// parseListing reads ctr's table, whose columns begin where their headers do.
func parseListing(listing string) ([]image, error) {
	header, rows, _ := strings.Cut(listing, "\n")
	names := strings.Fields(header)
	if len(names) < 2 || names[len(names)-1] != "LABELS" {
		return nil, fmt.Errorf("ctr's listing has other columns than expected: %q", header)
	}
	var images []image
	for row := range strings.Lines(rows) {
		var img image
		for i, name := range names {
			begin, end := strings.Index(header, name), len(row)
			if i+1 < len(names) {
				end = strings.Index(header, names[i+1])
			}
			if begin > len(row) || end > len(row) {
				return nil, fmt.Errorf("a row of ctr's listing is too short: %q", row)
			}
			value := strings.TrimSpace(row[begin:end])
			if name == "LABELS" {
				img.labels = splitLabels(value)
			} else {
				img.columns = append(img.columns, [2]string{name, value})
			}
		}
		images = append(images, img)
	}
	if len(images) == 0 {
		return nil, errors.New("ctr lists no image")
	}
	return images, nil
}

// splitLabels splits k=v,k=v; values may have commas too.
func splitLabels(s string) []string {
	var labels []string
	for part := range strings.SplitSeq(s, ",") {
		if n := len(labels); n > 0 && !strings.Contains(part, "=") {
			labels[n-1] += "," + part
			continue
		}
		labels = append(labels, part)
	}
	return labels
}

func (p *printer) listing(command string, images []image) {
	p.blank()
	p.text(0, bold, "What the node knows now")
	p.text(4, plain, "It is in labels on the image records. This is ctr's listing, a line for each column and label:")
	p.blank()
	p.text(4, bold, "$ "+command)
	for _, img := range images {
		for _, column := range img.columns {
			p.listed(strings.ToLower(column[0]), "", column[1])
		}
		for i, label := range img.labels {
			key := "labels"
			if i > 0 {
				key = ""
			}
			name, value, _ := strings.Cut(label, "=")
			p.listed(key, name+"=", value)
		}
		p.blank()
	}
}

// listed writes a part of the listing. A value that is too long to stand behind its name
// follows on the next lines, further to the left where a digest needs that to be in one
// piece, for copying.
func (p *printer) listed(key, name, value string) {
	if utf8.RuneCountInString(name+value) <= width-keys {
		p.field(key, plain, name+value)
		return
	}
	p.field(key, plain, name)
	for word := range strings.FieldsSeq(value) {
		if utf8.RuneCountInString(word) > width-keys {
			p.text(digestIndent, plain, value)
			return
		}
	}
	p.field("", plain, value)
}
