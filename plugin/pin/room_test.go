// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/store"
)

func tagged(name, id string, bytes, used int64) tag {
	return tag{store.Record{Name: name}, size{digest.Digest(id), bytes}, time.Unix(used, 0)}
}

func namesOf(all []image) string {
	names := make([]string, len(all))
	for n := range all {
		names[n] = all[n].name()
	}
	return strings.Join(names, " | ")
}

func TestFit(t *testing.T) {
	t.Parallel()
	tags := []tag{
		tagged("a:2", "a", 30, 5), tagged("b:1", "b", 40, 2), tagged("a:1", "a", 3000, 1), tagged("c:1", "c", 50, 3), tagged("d:1", "d", 0, 0),
	}
	for _, tt := range []struct {
		limit                    int64
		kept, released, tooLarge string
	}{
		{0, "a:1, a:2 | b:1 | c:1 | d:1", "", ""},
		{120, "d:1 | b:1 | c:1 | a:1, a:2", "", ""},
		{119, "c:1 | a:1, a:2", "d:1 | b:1", ""},
		{79, "a:1, a:2", "d:1 | b:1 | c:1", ""},
		{49, "a:1, a:2", "d:1 | b:1", "c:1"},
		{29, "d:1", "", "a:1, a:2 | b:1 | c:1"},
	} {
		kept, released, tooLarge := fit(imagesOf(tags), tt.limit)
		if namesOf(kept) != tt.kept || namesOf(released) != tt.released || namesOf(tooLarge) != tt.tooLarge {
			t.Errorf("limit %d: kept %s, released %s, too large %s", tt.limit, namesOf(kept), namesOf(released), namesOf(tooLarge))
		}
	}
}

// Sizes are what a manifest claims: their sum never wraps around.
func TestAdd(t *testing.T) {
	t.Parallel()
	var tags []tag
	for n := range int64(20) {
		tags = append(tags, tagged(fmt.Sprintf("a:%d", n), fmt.Sprint(n), 1<<60, n))
	}
	kept, released, _ := fit(imagesOf(tags), 1<<60)
	if namesOf(kept) != "a:19" || len(released) != 19 {
		t.Errorf("kept %s, released %s", namesOf(kept), namesOf(released))
	}
}
