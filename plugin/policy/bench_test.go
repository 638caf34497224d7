// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
)

// manyRules is a node with a hundred teams, each with a rule.
func manyRules(b *testing.B) *Rules {
	var doc strings.Builder
	for i := range 100 {
		fmt.Fprintf(&doc, "[[rule]]\nimages = [\"registry.example.com/team-%d/**\", \"docker.io/team-%d/*:1.*\"]\nnamespaces = [\"team-%d-*\"]\npolicy = \"IfDigestChanged\"\nmax_age = \"10m\"\n", i, i, i)
	}
	rules, err := ParseRules("f.toml", []byte(doc.String()))
	if err != nil {
		b.Fatal(err)
	}
	return NewRules(Overrides{}, rules)
}

func BenchmarkFor(b *testing.B) {
	rules := manyRules(b)
	subject := func(team int, annotations map[string]string) Subject {
		return Subject{
			Image:     Image{Repository: fmt.Sprintf("registry.example.com/team-%d/app/web", team), Tag: "1.2"},
			Namespace: fmt.Sprintf("team-%d-prod", team), Annotations: annotations,
		}
	}
	for _, test := range []struct {
		name string
		req  Subject
	}{
		{"first", subject(0, nil)},
		{"last", subject(99, nil)},
		{"none", subject(100, nil)},
		{"hints", subject(0, map[string]string{HintPrefix + "max-age": "1m", HintPrefix + "on-not-found": "Fail", "other": "x"})},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rules.For(test.req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
