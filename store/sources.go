// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSources bounds the value of [LabelContentSources], in bytes. An image may name thousands
// of bytes of hosts, and its label is on the record of each of its tags and with each of its
// containers, all of which fit into one list of 16 MiB, for containerd's clients and for a
// kubelet. There is room for 8 hosts of 63 bytes.
const maxSources = 512

// EncodeSources returns the value of [LabelContentSources]: hosts with commas
// between, and more hosts that are not among them. A list that is longer than
// maxSources ends early, with how many are left out: "a.test,b.test,+17 more".
func EncodeSources(hosts []string, more int) string {
	text := strings.Join(hosts, ",")
	for n := len(hosts); ; n-- {
		end := ""
		if leftOut := more + len(hosts) - n; leftOut > 0 {
			end = fmt.Sprintf("+%d more", leftOut)
			if n > 0 {
				end = "," + end
			}
		}
		if n == 0 || len(text)+len(end) <= maxSources {
			return text + end
		}
		text = text[:max(0, len(text)-len(","+hosts[n-1]))]
	}
}

// DecodeSources is the inverse of [EncodeSources]. A list that is said to end
// early in a way that cannot be read lacks one host at least.
func DecodeSources(value string) (hosts []string, more int) {
	for item := range strings.SplitSeq(value, ",") {
		leftOut, shortened := strings.CutPrefix(item, "+")
		switch {
		case shortened:
			n, err := strconv.Atoi(strings.TrimSuffix(leftOut, " more"))
			if err != nil || n < 1 {
				n = 1
			}
			more = max(more, n)
		case item != "":
			hosts = append(hosts, item)
		}
	}
	return hosts, more
}
