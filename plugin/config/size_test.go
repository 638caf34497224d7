// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1KiB": 1 << 10, "512MiB": 512 << 20, "20GiB": 20 << 30, "1.5TiB": 3 << 39, "999999TiB": 999999 << 40,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	// Units of powers of ten, and what is only nearly a size, would mean something else.
	for _, text := range []string{
		"", "1", "20GB", "20G", "20g", "20gib", "20 GiB", "-1GiB", "+1GiB", "0GiB", "0.0MiB", "0.0001KiB", "00", "1e3GiB", "1,5GiB", "GiB", "1000000TiB", "1PiB", "20GiB\n",
	} {
		if got, err := parseSize(text); err == nil || !strings.Contains(err.Error(), "20GiB") || got != 0 {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}

func TestPinLimit(t *testing.T) {
	t.Parallel()
	c, err := Section{"enabled": true, "pin_limit": "20GiB"}.Parse()
	if err != nil || c.PinLimit != 20<<30 {
		t.Errorf("%d, %v", c.PinLimit, err)
	}
	_, err = Section{"enabled": true, "pin_limit": "20GB"}.Parse()
	if err == nil || !strings.Contains(err.Error(), `pin_limit: "20GB": allowed are sizes`) {
		t.Error(err)
	}
}
